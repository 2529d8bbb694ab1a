// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// LMDB's C calls, thinly wrapped: real files to verify, made without any code of this package.
// Any error of LMDB is thrown as its number; only signals are fatal here.

import CLarderLMDB
import Foundation

/// A generator that gives the same numbers for the same seed, in any process.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  /// Splitmix64.
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }

  mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
  mutating func chance(_ one: Int) -> Bool { below(one) == 0 }

  mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var word: UInt64 = 0
    for index in 0..<min(count, 512) {
      if index % 8 == 0 { word = next() }
      bytes[index] = UInt8(truncatingIfNeeded: word >> UInt64(index % 8 * 8))
    }
    return bytes
  }
}

struct RawError: Error {
  let code: CInt

  static func check(_ code: CInt) throws(RawError) {
    if code != 0 { throw RawError(code: code) }
  }
}

/// A directory that goes away with this object.
final class ScratchDirectory {
  let path: String

  init() throws {
    let url = FileManager.default.temporaryDirectory
      .appendingPathComponent("larder-verifier-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    path = url.path
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}

@safe
final class RawEnvironment {
  private let environment: OpaquePointer
  let dataPath: String

  static let integerKey = UInt32(MDB_INTEGERKEY)
  static let reverseKey = UInt32(MDB_REVERSEKEY)
  static let duplicates = UInt32(MDB_DUPSORT)
  static let create = UInt32(MDB_CREATE)
  static let noSync = UInt32(MDB_NOSYNC)
  static let writeMap = UInt32(MDB_WRITEMAP)
  static let noSubdirectory = UInt32(MDB_NOSUBDIR)

  init(
    _ directory: String, flags: UInt32 = noSync, mapBytes: Int = 64 << 20, tables: UInt32 = 512
  ) throws(RawError) {
    var made: OpaquePointer?
    try unsafe RawError.check(mdb_env_create(&made))
    unsafe environment = made!
    let isFile = flags & Self.noSubdirectory != 0
    dataPath = directory + (isFile ? "/single.mdb" : "/data.mdb")
    let path = isFile ? dataPath : directory
    try unsafe RawError.check(mdb_env_set_mapsize(environment, mapBytes))
    try unsafe RawError.check(mdb_env_set_maxdbs(environment, tables))
    // NOTLS: several readers in one thread.
    let all = flags | UInt32(MDB_NOTLS)
    let code = unsafe mdb_env_open(environment, path, all, 0o600)
    guard code == 0 else { throw RawError(code: code) }
  }

  deinit { unsafe mdb_env_close(environment) }

  var descriptor: CInt {
    var descriptor: CInt = -1
    _ = unsafe mdb_env_get_fd(environment, &descriptor)
    return descriptor
  }

  func begin(readOnly: Bool = false) throws(RawError) -> RawTransaction {
    var made: OpaquePointer?
    let flags = readOnly ? UInt32(MDB_RDONLY) : 0
    try unsafe RawError.check(mdb_txn_begin(environment, nil, flags, &made))
    return unsafe RawTransaction(made!)
  }

  func write(_ body: (RawTransaction) throws -> Void) throws {
    let transaction = try begin()
    do { try body(transaction) } catch {
      transaction.abort()
      throw error
    }
    try transaction.commit()
  }

  func copy(to directory: String, compact: Bool) throws {
    let flags = compact ? UInt32(MDB_CP_COMPACT) : 0
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    try unsafe RawError.check(mdb_env_copy2(environment, directory, flags))
  }
}

/// A transaction; ended by commit or abort, exactly once.
@safe
final class RawTransaction {
  private let transaction: OpaquePointer

  fileprivate init(_ transaction: OpaquePointer) { unsafe self.transaction = transaction }

  func commit() throws(RawError) { try unsafe RawError.check(mdb_txn_commit(transaction)) }
  func abort() { unsafe mdb_txn_abort(transaction) }

  func table(_ name: String?, _ flags: UInt32 = 0) throws(RawError) -> UInt32 {
    var table: MDB_dbi = 0
    try unsafe RawError.check(mdb_dbi_open(transaction, name, flags, &table))
    return table
  }

  func put(_ table: UInt32, _ key: [UInt8], _ value: [UInt8]) throws(RawError) {
    try unsafe RawError.check(with(key, value) { unsafe mdb_put(transaction, table, &$0, &$1, 0) })
  }

  /// True: the key was there.
  func delete(_ table: UInt32, _ key: [UInt8]) throws(RawError) -> Bool {
    let code = unsafe with(key, []) { key, _ in unsafe mdb_del(transaction, table, &key, nil) }
    if code == MDB_NOTFOUND { return false }
    try RawError.check(code)
    return true
  }

  func drop(_ table: UInt32, andForget: Bool) throws(RawError) {
    try unsafe RawError.check(mdb_drop(transaction, table, andForget ? 1 : 0))
  }

  /// Reads each byte of a table; its keys, and whether the scan got to the end.
  func scan(_ table: UInt32) -> (keys: [[UInt8]], isWhole: Bool, sum: Int) {
    var cursor: OpaquePointer?
    guard unsafe mdb_cursor_open(transaction, table, &cursor) == 0 else { return ([], false, 0) }
    defer { unsafe mdb_cursor_close(cursor) }
    var (keys, sum, key, value) = unsafe ([[UInt8]](), 0, MDB_val(), MDB_val())
    while true {
      let code = unsafe mdb_cursor_get(cursor, &key, &value, MDB_NEXT)
      guard code == 0 else { return (keys, code == MDB_NOTFOUND, sum) }
      if unsafe key.mv_size > 0 {
        keys.append(unsafe [UInt8](UnsafeRawBufferPointer(start: key.mv_data, count: key.mv_size)))
      }
      // Each page of the value is touched: a page beyond the file would be a SIGBUS here.
      for offset in unsafe stride(from: 0, to: value.mv_size, by: 256) {
        sum &+= unsafe Int(value.mv_data.load(fromByteOffset: offset, as: UInt8.self))
      }
    }
  }

  private func with(
    _ key: [UInt8], _ value: [UInt8], _ body: (inout MDB_val, inout MDB_val) -> CInt
  ) -> CInt {
    unsafe key.withUnsafeBytes { key in
      unsafe value.withUnsafeBytes { value in
        var first = unsafe MDB_val(
          mv_size: key.count, mv_data: UnsafeMutableRawPointer(mutating: key.baseAddress))
        var second = unsafe MDB_val(
          mv_size: value.count, mv_data: UnsafeMutableRawPointer(mutating: value.baseAddress))
        return unsafe body(&first, &second)
      }
    }
  }
}

/// The bytes of an integer key.
func integerKey(_ number: Int, bytes: Int = 8) -> [UInt8] {
  (0..<bytes).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
}
