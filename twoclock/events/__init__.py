"""When did a run reach its target, and when did it fail? Tables of runs in, tables of events out.

`find` has the two entry points; the rules are in `target` and `failure`, their parts on single runs
in `verdict` (both kinds of evidence), `trainrows` (train rows) and `cleaning` (validations); `grid`
makes runs comparable over B, `sensitivity` tries other definitions, `target_choice` picks a target.
"""
