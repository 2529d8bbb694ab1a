// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

// Changes of many keys with one cursor. It finds keys in ascending order without a search from the
// root as long as they are in one page.

extension WriteTransaction {
  private func makeCursor(over table: TableHandle) throws(LMDBError) -> OpaquePointer {
    requireOwnThread()
    var opened: OpaquePointer?
    try unsafe check(mdb_cursor_open(handle, table.handle, &opened), "mdb_cursor_open")
    return unsafe opened!
  }

  /// Stores keys without values.
  ///
  /// - Parameters:
  ///   - places: The places of the keys in `bytes`, in ascending order of the keys.
  package mutating func putKeys(
    _ places: [Range<Int>], of bytes: [UInt8], in table: TableHandle
  ) throws(LMDBError) {
    let cursor = unsafe try makeCursor(over: table)
    defer { unsafe mdb_cursor_close(cursor) }
    for place in places {
      try makeRoom(table)
      let status = bytes.withRawSpan { bytes in
        unsafe withValue(bytes.slice(place)!) { key in
          var value = unsafe MDB_val()
          return unsafe mdb_cursor_put(cursor, key, &value, 0)
        }
      }
      try check(status, "mdb_cursor_put")
      record { recorder in
        bytes.withRawSpan { recorder.put(RawSpan(), key: $0.slice(place)!, in: table) }
      }
    }
  }

  /// Replaces the values of keys.
  ///
  /// - Parameters:
  ///   - count: The number of keys.
  ///   - makeKey: Appends the bytes of the key at a position to an empty array.
  ///   - body: Gets the position of a key that exists, and its value, valid until it returns; appends
  ///     the new value to an empty array. Returns whether to replace the value.
  package mutating func replaceValues(
    in table: TableHandle, count: Int, _ makeKey: (_ position: Int, _ key: inout [UInt8]) -> Void,
    _ body: (_ position: Int, _ value: RawSpan, _ new: inout [UInt8]) throws -> Bool
  ) throws {
    let cursor = unsafe try makeCursor(over: table)
    defer { unsafe mdb_cursor_close(cursor) }
    var key: [UInt8] = []
    var new: [UInt8] = []
    for position in 0..<count {
      key.removeAll(keepingCapacity: true)
      makeKey(position, &key)
      var value = unsafe MDB_val()
      let found = key.withRawSpan { key in
        unsafe withValue(key) { unsafe mdb_cursor_get(cursor, $0, &value, MDB_SET) }
      }
      guard try LarderLMDB.found(found, "mdb_cursor_get") else { continue }
      new.removeAll(keepingCapacity: true)
      guard try unsafe body(position, value.span, &new) else { continue }
      try makeRoom(table, bytes: new.count)
      let status = key.withRawSpan { key in
        new.withRawSpan { new in
          unsafe withValue(key) { key in
            unsafe withValue(new) { unsafe mdb_cursor_put(cursor, key, $0, UInt32(MDB_CURRENT)) }
          }
        }
      }
      try check(status, "mdb_cursor_put")
      record { recorder in
        key.withRawSpan { key in new.withRawSpan { recorder.put($0, key: key, in: table) } }
      }
    }
  }
}
