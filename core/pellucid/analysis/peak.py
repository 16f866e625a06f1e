"""An estimate of a program's peak memory from the lifetimes of its values.

A value lives from the equation that computes it to the last one that uses it; arguments live throughout. XLA fuses and
reorders operations and reuses memory, so a compiled program usually needs less.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid._machine.ir import Equation, Jaxpr, Literal
from pellucid.introspect.bodies import bodies_of

from .sites import ProgramSite


def estimated_peak_bytes(
    sites: Sequence[ProgramSite], programs: Sequence[Jaxpr], device_bytes: Sequence[float]
) -> float:
    """Peak number of bytes alive at once in a run of a program, including its arguments.

    `programs` are indexed by the numbers in `sites`, `device_bytes` by the numbers of the values.
    """
    within: dict[tuple[int, int | None], list[int]] = {}
    for place, site in enumerate(sites):
        within.setdefault((site.parent, site.equation), []).append(place)

    def inside(equation: Equation, place: int) -> float:
        """Peak bytes of the programs that `equation` runs, besides its results."""
        places = within.get((place, equation.id), ())
        return max((at(each) for each in places), default=0.0)

    def at(place: int) -> float:
        """Peak bytes of the values computed at a site; its inputs are alive in its caller."""
        site = sites[place]
        jaxpr = programs[site.body]
        inputs = [*jaxpr.constvars, *jaxpr.invars]
        number = site.first + len(inputs)
        last_use = {
            atom: row
            for row, equation in enumerate(jaxpr.equations)
            for atom in equation.operands
            if type(atom) is not Literal
        }
        last_use |= {a: len(jaxpr.equations) for a in jaxpr.outvars if type(a) is not Literal}
        bytes_of = dict.fromkeys(inputs, 0.0)
        alive, peak = 0.0, 0.0
        for row, equation in enumerate(jaxpr.equations):
            result_bytes = device_bytes[number : number + len(equation.results)]
            number += len(result_bytes)
            bytes_of.update(zip(equation.results, result_bytes, strict=True))
            results, inner = sum(result_bytes), inside(equation, place)
            # The results of a body that runs once are those of its equation; a loop has results of its own in addition.
            is_once = all(body.trips == 1 for body in bodies_of(equation))
            peak = max(peak, alive + (max(results, inner) if is_once else results + inner))
            alive += sum(bytes_of[v] for v in equation.results if v in last_use)
            ending = {a for a in equation.operands if last_use.get(a) == row}  # type: ignore[arg-type]
            alive -= sum(bytes_of[a] for a in ending)  # type: ignore[index]
        return peak

    main = programs[0]
    n_given = len(main.constvars) + len(main.invars)
    return sum(device_bytes[:n_given]) + at(0)
