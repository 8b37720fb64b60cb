"""GBNF (llama.cpp) grammars, converted to Lark."""
