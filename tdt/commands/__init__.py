"""The verbs of `tdt`: a module each, with a function of the same name, or a Typer with commands of its own.

A module is loaded when its verb is asked for.

What a verb needs of the library it imports inside the function, so that help and completion start at once.
"""
