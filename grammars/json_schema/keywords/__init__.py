"""What the keywords of one JSON type allow, and what their negation allows.

Each module reads the keywords of its type from a normalised schema: ``allow`` gives the one form that satisfies
all of them, ``deny`` the forms of which each breaks at least one.  Values below a form stay literals.
"""
