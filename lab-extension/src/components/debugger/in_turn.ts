/**
 * An asynchronous function whose calls run one after another, in the order in which they are made.
 *
 * A call that takes longer than `limitMilliseconds` no longer keeps the next one waiting; one that fails never does.
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
