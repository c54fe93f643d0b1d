//! The real CPU: registers, barriers and invalidation. The only assembly of the library.
