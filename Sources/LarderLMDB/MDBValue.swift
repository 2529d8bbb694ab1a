// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

// MDB_val ⇄ RawSpan. The only lifetime casts of the module are here.

extension MDB_val {
  /// The bytes to which LMDB points. They are valid until the transaction ends or, in a write
  /// transaction, until its next update: the caller ties their lifetime to its transaction.
  var span: RawSpan {
    @_lifetime(immortal) get {
      let span = unsafe RawSpan(_unsafeStart: mv_data, byteCount: mv_size)
      return unsafe _overrideLifetime(span, copying: ())
    }
  }
}

/// Calls LMDB with an integer key and returns its status.
@unsafe @inline(__always)
func withKey(_ key: UInt64, _ call: (UnsafeMutablePointer<MDB_val>) -> CInt) -> CInt {
  var storage = key
  return unsafe withUnsafeMutablePointer(to: &storage) { pointer in
    var value = unsafe MDB_val(mv_size: 8, mv_data: UnsafeMutableRawPointer(pointer))
    return unsafe call(&value)
  }
}

/// Calls LMDB with a key or value of bytes and returns its status.
@unsafe @inline(__always)
func withValue(_ span: RawSpan, _ call: (UnsafeMutablePointer<MDB_val>) -> CInt) -> CInt {
  unsafe span.withUnsafeBytes { bytes in
    var value = unsafe MDB_val(
      mv_size: bytes.count, mv_data: UnsafeMutableRawPointer(mutating: bytes.baseAddress))
    return unsafe call(&value)
  }
}
