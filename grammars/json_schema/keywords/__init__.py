"""The meaning of the keywords of one JSON type, and of their negation.

Each module reads the keywords of its type from a normalised schema: ``allow`` gives the one form that satisfies all
of them, ``deny`` the forms of which each breaks at least one.  Values inside a form stay literals.
"""
