"""The ground state of a chain of spins, found by netket's variational Monte Carlo with stochastic reconfiguration.

All of it is written for jax: `python -m pellucid.as_jax examples/libraries/netket_chain.py` runs it on pellucid.
"""

import netket as nk


def main(steps: int = 60) -> list[float]:
    """Trains a restricted Boltzmann machine for some steps and returns the estimated energies."""
    graph = nk.graph.Chain(length=10)
    spins = nk.hilbert.Spin(s=0.5, N=graph.n_nodes)
    hamiltonian = nk.operator.IsingJax(spins, graph, h=1.0)
    sampler = nk.sampler.MetropolisLocal(spins, n_chains=16)
    machine = nk.models.RBM(alpha=1, param_dtype=float)
    state = nk.vqs.MCState(sampler, machine, n_samples=512, seed=0, sampler_seed=1)
    driver = nk.driver.VMC_SR(
        hamiltonian, nk.optimizer.Sgd(0.05), diag_shift=0.01, variational_state=state
    )
    log = nk.logging.RuntimeLog()
    driver.run(steps, out=log, show_progress=False)
    magnetization = sum(nk.operator.spin.sigmax(spins, i) for i in range(3))
    assert 0 < state.expect(magnetization).mean.real <= 3
    return [float(energy.real) for energy in log.data["Energy"]["Mean"]]


if __name__ == "__main__":
    for number, value in enumerate(main()):
        if number % 10 == 0:
            print(f"step {number}: energy {value:.6f}")
