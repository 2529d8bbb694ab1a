// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

extension Environment {
  /// Opens a table and creates it if it does not exist.
  ///
  /// The first call for a table acquires the writer lock; later calls return the open table. A
  /// table can be emptied but not removed, because a process that has it open could write into the
  /// table that reuses its identifier.
  ///
  /// - Parameters:
  ///   - name: The name, 1 to 511 bytes without a zero byte, or `nil` for the unnamed table, for
  ///     files of programs that use it. The unnamed table also stores the names of the other
  ///     tables, which are not entries of the program.
  ///   - keys: The kind of keys with which the table was created.
  /// - Returns: The table, valid until the environment is closed.
  /// - Throws: ``LMDBError/Code/incompatible`` if the table has keys of the other kind, or another
  ///   program created it with flags that Larder does not support;
  ///   ``LMDBError/Code/insideTransaction`` inside a write; ``LMDBError/Code/writerStalled``;
  ///   ``LMDBError/Code/tablesFull``.
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
    // LMDB assigns one identifier to a table, however often it is opened.
    let table = Table(
      keys: keys, handle: try handle.openTable(name, keys: keys), serial: serial)
    tables.withLock { $0[name] = table }
    return table
  }
}
