// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem

/// A builder of new, empty generations: it completes one, then makes it current with one rename.
package struct GenerationBuilder {
  let directory: StoreDirectory
  let options: StoreOptions

  package init(directory: StoreDirectory, options: StoreOptions) {
    self.directory = directory
    self.options = options
  }

  package static let defaultCacheBudget = 256 << 20

  /// Builds an empty generation and makes it current. The caller holds the open lock.
  ///
  /// - Parameters:
  ///   - number: The number of the generation.
  ///   - heritage: The properties of the generation that it replaces, if they are valid.
  ///   - budget: The budget, if neither the options nor `heritage` contain one.
  func build(
    number: UInt64, heritage: StoreMeta?, budget: UInt64? = nil
  ) throws(StoreError) {
    let temporary = directory.generation(number) + ".tmp"
    FileSystem.removeTree(temporary)
    do {
      try build(number: number, heritage: heritage, budget: budget, in: temporary)
      try put(temporary, inForceAs: number)
    } catch {
      FileSystem.removeTree(temporary)
      throw StoreError(wrapping: error, during: "create", path: directory.path)
    }
  }

  private func build(
    number: UInt64, heritage: StoreMeta?, budget known: UInt64?, in path: String
  ) throws {
    let requested = options.budget.map { UInt64($0.bytes) } ?? heritage?.budget ?? known
    let budget =
      requested ?? (options.durability == .cache ? UInt64(GenerationBuilder.defaultCacheBudget) : 0)
    let entries = options.entryBudget.map(UInt64.init(clamping:)) ?? heritage?.entryBudget ?? 0
    let shape =
      options.isSmall
      ? .small : SharedTableShape(budget: Int(budget), entries: Int(clamping: entries))
    var meta = StoreMeta(
      durability: options.durability, generation: number, inheriting: heritage, budget: budget,
      shape: shape, created: options.clock.now())
    meta.hashBits = UInt8(options.hashBits)
    meta.entryBudget = entries
    if let code = options.evictionPolicy?.code ?? heritage?.policyCode { meta.policyCode = code }
    meta.syncInterval = requestedInterval
    if let limit = ResourceLimits.fileSize,
      limit < max(shape.fileSize, 1 << 20)
    {
      throw SystemError(errno: SystemError.fileTooLarge, operation: "create", path: path)
    }

    try GenerationBuilder.makeDirectory(path)
    try GenerationBuilder.prepareLockFile(in: path, meta.shape)
    let environment = try EnvironmentHandle(
      path: path,
      options: .init(
        mapSize: Int(meta.mapSize), minimumMapSize: GenerationBuilder.minimumMapSize,
        maximumReaders: meta.shape.readerSlots, synchronous: meta.durability.survivesSystemCrash))
    do {
      var transaction = try WriteTransaction(in: environment)
      _ = try Generation.Tables(in: &transaction)
      try transaction.put(meta.bytes(), forKey: StoreMeta.key, in: .main)
      try transaction.put(StoreTotals().encoded(), forKey: StoreTotals.key, in: .main)
      try transaction.commit()
    } catch {
      environment.close()
      throw error
    }
    try createSupportFiles(path, meta, closing: environment, inheriting: nil)
  }

  /// The requested checkpoint interval. Opening rejects an interval outside the range later.
  private var requestedInterval: UInt64 {
    let wanted = options.syncInterval.map { UInt64(clamping: $0.milliseconds) }
    return wanted.flatMap { StoreMeta.syncIntervals.contains($0) ? $0 : nil }
      ?? StoreMeta.usualSyncInterval
  }

  /// Closes the environment of a new generation and creates its other files.
  package func createSupportFiles(
    _ path: String, _ meta: StoreMeta, closing environment: EnvironmentHandle,
    inheriting old: SharedTable?
  ) throws {
    let commitVersion = Generation.newestVersion(ofGeneration: meta.generation, in: environment)
    let changed = FileSystem.status(ofDescriptor: environment.dataDescriptor)?.changed ?? 0
    let pageCache = PageCacheIdentity(ofDescriptor: environment.dataDescriptor)
    environment.close()
    if meta.durability.survivesSystemCrash {
      try recordBuilt(meta, in: path)
      try LogSegments.create(in: path)
    }

    let state = StoreState(
      isDirty: true, storeID: meta.storeID, durability: meta.durability, pageCache: pageCache)
    let stateChanged = try state.write(to: path + "/state")
    let tableFile = try OwnedFile(path: path + "/shared.table", creation: .createNew)
    try SharedTable.create(
      in: tableFile, for: meta, commitVersion: commitVersion,
      files: .init(
        isDirty: true, dataChanged: changed, stateChanged: stateChanged, pageCache: pageCache))
    if let old { try SharedTable(mapping: tableFile)?.inherit(from: old) }
    _ = try OwnedFile(path: path + "/presence", creation: .createNew)
  }

  /// Synchronizes the data file and records it: a store that survives system crashes always has a checkpoint record.
  private func recordBuilt(_ meta: StoreMeta, in path: String) throws {
    let data = try OwnedFile(path: path + "/data.mdb")
    try data.synchronize()
    guard let page = try MetaPage.newest(in: data) else {
      throw StoreError(.damaged, during: "create", path: path, "data.mdb cannot be read again.")
    }
    let record = CheckpointRecord(
      storeID: meta.storeID, generation: meta.generation, time: Clocks.wallMilliseconds(),
      dataBytes: UInt64(try data.status.size), meta: page)
    try CheckpointFile.create(record, in: path)
  }

  /// Creates the directory of a generation, whose files own the blocks that are preallocated.
  ///
  /// - Throws: `StoreError` with `fileSystem` if the file system copies each block that is written.
  package static func makeDirectory(_ path: String) throws {
    try FileSystem.makeDirectory(path)
    try ownBlocks(in: path)
  }

  /// Gives LMDB's lock file its size and its blocks before LMDB maps it: a sparse file raises
  /// SIGBUS on a full disk. No process may have the generation open.
  ///
  /// - Parameter shape: The shape of the shared-memory table, if that is valid.
  package static func prepareLockFile(in path: String, _ shape: SharedTableShape?) throws {
    try ownBlocks(in: path)
    let lock = try OwnedFile(path: path + "/lock.mdb", creation: .createIfMissing)
    let sizes = shape.map { [$0.lockFileSize] } ?? SharedTableShape.lockFileSizes
    if sizes.contains(try lock.status.size), lock.ownBlocks() == .owned { return }
    try lock.truncate(to: 0)
    _ = lock.ownBlocks()
    try lock.preallocate(sizes.last!)
  }

  /// The reader slots that the lock file of a generation has room for.
  static func readerSlots(in path: String) -> Int {
    let size = (try? FileSystem.status(of: path + "/lock.mdb"))??.size ?? 0
    return SharedTableShape.readerSlots(
      lockFileSize: max(size, SharedTableShape.lockFileSizes[0]))
  }

  /// Turns copying on write off for the files that are created in a generation's directory.
  static func ownBlocks(in path: String) throws {
    let directory = try OwnedFile(path: path, writable: false)
    guard case .copiesOnWrite(let name) = directory.ownBlocks() else { return }
    throw StoreError(
      .fileSystem, during: "open", path: path,
      "The file system (\(name)) writes each block to a new place, so that a full disk would end "
        + "processes that only read. Set the attribute C on the directory above (`chattr +C`), or use "
        + "a directory on ext4, xfs, btrfs or tmpfs.")
  }

  /// Returns the map size, which is virtual and equal in all processes: a map in use is never
  /// resized.
  ///
  /// A process with less address space maps less of it (`EnvironmentHandle.Options`).
  package static func mapSize(budget: Int) -> Int {
    let budget = min(budget, maximumBudget)
    return budget == 0 ? 1 << 40 : max(4 << 30, (8 * budget + 0xFFFF) & ~0xFFFF)
  }

  /// The largest budget: its map is as large as maps can be.
  static let maximumBudget = 1 << 43
  /// The smallest map a process makes do with.
  package static let minimumMapSize = 64 << 20
}
