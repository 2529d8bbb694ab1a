// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

extension Environment {
  /// Opens a table, making it if it is missing.
  ///
  /// It takes the write lock the first time; later the open table is at hand. A table cannot be
  /// removed, only emptied: whoever knows it could go on writing, into another one.
  ///
  /// - Parameters:
  ///   - name: 1 to 511 bytes, none of them zero. `nil`: the one table that has no name, for files of
  ///     programs that use it; it also holds the names of the others, which are no entries of its own.
  ///   - keys: What its keys are, as it was made.
  /// - Throws: ``LMDBError/Code/incompatible`` when it was made with keys of another kind, or by
  ///   another program as one that Larder does not have; ``LMDBError/Code/insideTransaction`` inside a
  ///   write; ``LMDBError/Code/writerStalled``; ``LMDBError/Code/tablesFull``.
  public func table(_ name: String?, keys: Table.Keys = .bytes) throws(LMDBError) -> Table {
    let operation = "open table \(name.map { "\"\($0)\"" } ?? "without a name") of"
    try enter(operation)
    defer { leave() }
    if let name, !(1...511).contains(name.utf8.count) || name.utf8.contains(0) {
      throw LMDBError(.invalidOption, during: "\(operation) \(path)")
    }
    if name == nil, keys != .bytes {
      throw LMDBError(.incompatible, during: "\(operation) \(path)")
    }
    if let table = tables.withLock({ $0[name] }) {
      guard table.keys == keys else {
        throw LMDBError(.incompatible, during: "\(operation) \(path)")
      }
      return table
    }
    try requireNoWrite(operation)
    try takeTurn(operation)
    defer { endTurn() }
    // LMDB gives a table one number, however often it is opened.
    let table = Table(
      keys: keys, handle: try handle.openTable(name, keys: keys), serial: serial)
    tables.withLock { $0[name] = table }
    return table
  }
}
