//! Recorders that implement bellman's and bellpepper-core's `ConstraintSystem`.
