//! The arm64 kernel linear map.
#![no_std]
