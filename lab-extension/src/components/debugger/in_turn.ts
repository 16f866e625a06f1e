/**
 * Wraps an asynchronous function so that its calls run one after another, in call order.
 *
 * A call that takes longer than `limitMilliseconds`, or that fails, no longer blocks the next one.
 */
export function inTurn<A extends unknown[], R>(
  run: (...args: A) => Promise<R>,
  limitMilliseconds: number,
): (...args: A) => Promise<R> {
  let previous: Promise<unknown> = Promise.resolve();
  return (...args) => {
    const result = previous.then(() => run(...args));
    previous = previous.then(() => {
      const limit = new Promise(resolve => setTimeout(resolve, limitMilliseconds));
      return Promise.race([result.catch(() => undefined), limit]);
    });
    return result;
  };
}
