"""Solvers of the dual problem; they know kernel matrices and bounds, and nothing of classes.

Each is needed in a regime of its own (milliseconds of the processor; a star: did not converge):

=============================================  ========  ========  ========  ========
problem                                        pairs     dense     newton    low rank
=============================================  ========  ========  ========  ========
nonlinear, 3,000 x 20, C=10                    134                           128
linear, more columns than rows: 1,500 x 2,000  212       216       9,777
nonlinear, up to 700 rows: 600 x 20, C=10      13.8      3.3                 14.3
linear, more rows than columns: 2,000 x 20     75*       821*      6.0
a kernel of low rank, large C: 3,000 x 4       191*                          70
=============================================  ========  ========  ========  ========

``python -m benchmarks.svm_regimes`` measures them in more regimes, and `stages` chooses. An interior point
method for the linear kernel was tried as well: wherever Newton's method did not converge, pair steps after it
did, in 0.1 to 1 times the time that the interior point took before them.
"""
