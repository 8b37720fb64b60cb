"""Read by Python at its start, in a server of the tests: masks of requests with these token limits raise."""

from guided.vllm.grammar import RowGrammar

mask = RowGrammar._mask


def broken(grammar):
    if grammar._request.max_tokens == 77 and grammar._num_read == 3:
        return 1 // 0
    if grammar._request.max_tokens == 78 and grammar._num_read == 3:
        raise MemoryError("none is left")
    return mask(grammar)


RowGrammar._mask = broken
