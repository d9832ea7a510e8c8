//! The client library: async here, blocking in `blocking`.
