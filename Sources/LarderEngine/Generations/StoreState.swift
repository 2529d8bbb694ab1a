// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// THE STATE FILE (`state`), 88 bytes, little-endian
//
//      0  magic     u64   "LARDERS1"
//      8  version   u32   2
//     12  dirty     u32   0: every commit is on the disk; 1: some may not be
//     16  boot id   u64   the boot it was written in
//     24  store id  16 bytes
//     40  changed   u64   clean: when data.mdb was last changed then; nanoseconds of its status
//     48  kind      u64   1 cache, 2 durable, 3 relaxed; 0: not known
//     56  cache     2 u64 the page cache of data.mdb then (`PageCacheIdentity.swift`)
//     72  newest    u64   clean: the id of the newest transaction in data.mdb; 0: not known
//     80  checksum  u64   XXH64 of the first 80 bytes
//
// It decides how the next opener treats `data.mdb`. Dirty is made durable before the first
// commit of a boot; clean is written only by a closer that is alone, after everything was synced.
// A dirty file is trusted only if its page cache is provably the one that was written to.
// A clean file that any process has changed since is verified before it is trusted.
// How often opening failed half-way is counted in `shared.table`, not here: opening and reading
// leaves `state` and the disk alone.

/// The recorded state of a generation's data file while no process has it open.
package struct StoreState: Sendable {
  package static let size = 88
  /// The offset of the checksum: of all bytes before it.
  package static let checksumOffset = 80
  private static let magic: UInt64 = 0x3153_5245_4452_414C
  private static let version: UInt32 = 2

  package var isDirty: Bool
  package var bootID: UInt64
  package var storeID: (UInt64, UInt64)
  /// The time of the last change of a clean `data.mdb`, or zero if it is unknown.
  package var dataChanged: UInt64
  /// The durability of the store, readable before the store is opened.
  package var durability: Durability?
  /// The page cache of `data.mdb` when this was written.
  package var pageCache: PageCacheIdentity
  /// The newest transaction in a clean `data.mdb`, or zero if it is unknown.
  package var newestTransaction: UInt64

  package init(
    isDirty: Bool, bootID: UInt64 = ProcessIdentity.bootID, storeID: (UInt64, UInt64),
    clean: (changed: UInt64, newest: UInt64) = (0, 0), durability: Durability? = nil,
    pageCache: PageCacheIdentity
  ) {
    self.isDirty = isDirty
    self.bootID = bootID
    self.storeID = storeID
    (dataChanged, newestTransaction) = clean
    self.durability = durability
    self.pageCache = pageCache
  }

  /// Decodes a state file, or returns `nil` if the bytes are none; the data is verified then.
  package init?(_ bytes: [UInt8]) {
    let end = StoreState.checksumOffset
    guard
      bytes.count == StoreState.size,
      bytes.integer(at: 0, as: UInt64.self) == StoreState.magic,
      bytes.integer(at: 8, as: UInt32.self) == StoreState.version,
      let dirty: UInt32 = bytes.integer(at: 12), dirty <= 1,
      bytes.integer(at: end, as: UInt64.self) == XXH64.hash(Array(bytes[..<end]))
    else { return nil }
    isDirty = dirty == 1
    bootID = bytes.integer(at: 16)!
    storeID = (bytes.integer(at: 24)!, bytes.integer(at: 32)!)
    dataChanged = bytes.integer(at: 40)!
    durability = bytes.integer(at: 48, as: UInt8.self).flatMap(Durability.init(code:))
    pageCache = PageCacheIdentity(
      mount: bytes.integer(at: 56)!, fileSystem: bytes.integer(at: 64)!)
    newestTransaction = bytes.integer(at: 72)!
  }

  package func bytes() -> [UInt8] {
    let end = StoreState.checksumOffset
    var bytes = [UInt8](repeating: 0, count: StoreState.size)
    bytes.store(StoreState.magic, at: 0)
    bytes.store(StoreState.version, at: 8)
    bytes.store(isDirty ? UInt32(1) : 0, at: 12)
    bytes.store(bootID, at: 16)
    bytes.store(storeID.0, at: 24)
    bytes.store(storeID.1, at: 32)
    bytes.store(dataChanged, at: 40)
    bytes[48] = durability?.code ?? 0
    bytes.store(pageCache.mount, at: 56)
    bytes.store(pageCache.fileSystem, at: 64)
    bytes.store(newestTransaction, at: 72)
    bytes.store(XXH64.hash(Array(bytes[..<end])), at: end)
    return bytes
  }

  /// Reads a state file, or returns `nil` if it is missing or damaged.
  package static func read(from path: String) throws(SystemError) -> StoreState? {
    do throws(SystemError) {
      let file = try OwnedFile(path: path, writable: false)
      return StoreState(try file.read(count: StoreState.size + 1, at: 0))
    } catch {
      if error.isNoSuchFile { return nil }
      throw error
    }
  }

  /// Writes the state file.
  ///
  /// - Returns: The time of this change, by which a later copy over the file is found out.
  @discardableResult
  package func write(to path: String, synchronous: Bool = true) throws(SystemError) -> UInt64 {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    try file.write(bytes(), at: 0)
    if synchronous { try file.synchronize() }
    return try file.status.changed
  }

  /// Returns the reason why pages of a dirty `data.mdb` may be missing.
  ///
  /// - Parameter data: The file `data.mdb`, which no process has open.
  /// - Returns: `nil` if it is clean, or its page cache is provably the one that was written to.
  package func missingProof(for data: OwnedFile) -> String? {
    if !isDirty { return nil }
    if bootID != ProcessIdentity.bootID {
      return "the system went down while the store was in use"
    }
    if pageCache.isProven(forDescriptor: data.descriptor) { return nil }
    return "the store was in use, and its file system was mounted again or its files were copied"
  }
}
