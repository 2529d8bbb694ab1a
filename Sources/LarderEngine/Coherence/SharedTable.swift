// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem
public import Synchronization

/// The mapped table of a generation, shared by all processes. Format: `SharedTableLayout.swift`.
///
/// Access uses only atomics. Commit versions only grow; words that are compared are stored
/// inverted.
@safe @usableFromInline
package final class SharedTable: Sendable {
  // Fixed at open.
  private let region: MappedRegion
  private let file: OwnedFile
  /// The pid of this process.
  let pid = ProcessIdentity.pid
  package let shape: SharedTableShape
  package let generation: UInt64
  /// The position of this mapping among all mappings that this process made. In contrast to the
  /// generation number it is unique: a store that was deleted and created again counts its
  /// generations from one.
  package let incarnation: UInt64
  private static let mappings = Atomic<UInt64>(0)
  @usableFromInline let uses: UseTable
  let samples: SampleRing
  @usableFromInline let stampMask: Int
  // Sound: both point into `region`, 8-byte aligned, and live as long as `self`.
  @usableFromInline nonisolated(unsafe) let base: UnsafeMutableRawPointer
  @usableFromInline nonisolated(unsafe) let stamps: UnsafeMutablePointer<Atomic<UInt64>>

  /// The store and generation that a table file must contain to be the expected one.
  package struct Binding: Sendable, Hashable {
    package var storeID: (UInt64, UInt64) { (id0, id1) }
    let id0: UInt64
    let id1: UInt64
    package let generation: UInt64

    package init(storeID: (UInt64, UInt64), generation: UInt64) {
      self.id0 = storeID.0
      self.id1 = storeID.1
      self.generation = generation
    }
  }

  /// The words of a table that a process copies.
  package enum CopiedWords: Sendable {
    /// Those before the stamps: of a process that only observes.
    case beforeStamps
    /// Those that this process changes. The file must not change meanwhile.
    case changed
  }

  /// Maps an existing table.
  ///
  /// - Parameter copied: What to copy to memory of this process instead: no change reaches the file. Words that
  ///   are not copied are zero.
  /// - Returns: `nil` if the file is not a complete, valid table of this version.
  package init?(mapping file: OwnedFile, copied: CopiedWords? = nil) throws(SystemError) {
    let size = try file.status.size
    guard size >= SharedTableShape.small.fileSize else { return nil }
    let header = try file.read(count: 128, at: 0)
    guard
      header.count == 128,
      header.integer(at: SharedTableLayout.magicOffset, as: UInt64.self) == SharedTableLayout.magic,
      header.integer(at: SharedTableLayout.versionOffset, as: UInt64.self)
        == SharedTableLayout.version,
      let stamps: UInt64 = header.integer(at: SharedTableLayout.stampSlotsOffset),
      let recency: UInt64 = header.integer(at: SharedTableLayout.recencySlotsOffset),
      let processes: UInt64 = header.integer(at: SharedTableLayout.processSlotsOffset),
      let shape = SharedTableShape(
        stampSlots: stamps, recencySlots: recency, processSlots: processes),
      size == shape.fileSize,
      let generation: UInt64 = header.integer(at: SharedTableLayout.generationOffset)
    else { return nil }
    let region =
      switch copied {
      case nil: try MappedRegion(sharing: file, count: size, isZeroInForkedChild: true)
      case .beforeStamps: try MappedRegion(copying: file, count: shape.stamps, size: size)
      case .changed: try MappedRegion(changing: file, count: size)
      }
    self.file = file
    self.region = region
    self.shape = shape
    self.stampMask = shape.stampSlots - 1
    self.generation = generation
    incarnation = SharedTable.mappings.wrappingAdd(1, ordering: .relaxed).newValue
    unsafe self.base = region.base
    unsafe self.stamps = (region.base + shape.stamps).assumingMemoryBound(
      to: Atomic<UInt64>.self)
    unsafe uses = UseTable(
      words: (region.base + shape.recency).assumingMemoryBound(to: Atomic<UInt64>.self),
      mask: shape.recencySlots / 8 - 1)
    unsafe samples = SampleRing(region: region.base + shape.samples, slots: shape.sampleSlots)
  }

  /// Writes a new table for a store's properties into a file.
  ///
  /// - Parameters:
  ///   - file: The file, whose former contents are overwritten.
  ///   - meta: The properties of the generation.
  ///   - commitVersion: The commit version of every stamp, of the floor, and of the writer.
  ///   - files: The other files of the generation.
  package static func create(
    in file: OwnedFile, for meta: StoreMeta, commitVersion: UInt64, files: FileMarks
  ) throws(SystemError) {
    let shape = meta.shape
    let size = shape.fileSize
    let isNew = try file.status.size == 0
    // The magic is cleared first and written last, so a partly written table is invalid.
    if !isNew { try file.write([UInt8](repeating: 0, count: 8), at: 0) }
    try file.truncate(to: size)
    try file.preallocate(size)
    var header = [UInt8](repeating: 0, count: 1024)
    header.store(SharedTableLayout.version, at: SharedTableLayout.versionOffset)
    header.store(meta.storeID.0, at: SharedTableLayout.storeIDOffset)
    header.store(meta.storeID.1, at: SharedTableLayout.storeIDOffset + 8)
    header.store(meta.generation, at: SharedTableLayout.generationOffset)
    header.store(UInt64(shape.stampSlots), at: SharedTableLayout.stampSlotsOffset)
    header.store(UInt64(shape.recencySlots), at: SharedTableLayout.recencySlotsOffset)
    header.store(UInt64(shape.processSlots), at: SharedTableLayout.processSlotsOffset)
    header.store(ProcessIdentity.bootID, at: SharedTableLayout.bootIDOffset)
    header.store(ProcessIdentity.pidNamespace, at: SharedTableLayout.pidNamespaceOffset)
    header.store(UInt64(size), at: SharedTableLayout.fileSizeOffset)
    files.store(in: &header)
    header.store(~commitVersion, at: SharedTableLayout.floor)
    header.store(commitVersion, at: SharedTableLayout.writerVersion)
    header.store(commitVersion, at: SharedTableLayout.lastStamped)
    header.store(commitVersion, at: SharedTableLayout.tagsRemoved)
    header.store(meta.budget, at: SharedTableLayout.budget)
    header.store(meta.entryBudget, at: SharedTableLayout.entryBudget)
    header.store(UInt64(meta.policyCode), at: SharedTableLayout.policy)
    // The numbers of admissions begin anywhere, so that old entries are not taken for admitted ones.
    header.store(
      UInt64(UInt32.random(in: 0...UInt32.max) & ~1),
      at: SharedTableLayout.queues + EvictionQueues.Word.admissions.rawValue * 8)
    header.store(
      EvictionQueues.initialShare,
      at: SharedTableLayout.queues + EvictionQueues.Word.share.rawValue * 8)
    header.store(meta.syncInterval, at: SharedTableLayout.syncInterval)
    try file.write(header, at: 0)
    var middle = [UInt8](repeating: 0, count: shape.stamps - 1024)
    for index in 0..<SharedTableLayout.namespaceStampCount {
      middle.store(~commitVersion, at: SharedTableLayout.namespaceStamps - 1024 + index * 8)
    }
    try file.write(middle, at: 1024)
    var stamps = [UInt8](repeating: 0, count: shape.stampSlots * 8)
    for index in 0..<shape.stampSlots { stamps.store(~commitVersion, at: index * 8) }
    try file.write(stamps, at: shape.stamps)
    // The rest of a new file reads as zeros.
    let zeros = [UInt8](repeating: 0, count: 1 << 16)
    var offset = shape.recency
    while offset < size, !isNew {
      try file.write(Array(zeros.prefix(size - offset)), at: offset)
      offset += zeros.count
    }
    var magic = [UInt8](repeating: 0, count: 8)
    magic.store(SharedTableLayout.magic, at: 0)
    try file.write(magic, at: SharedTableLayout.magicOffset)
  }

  // MARK: Addresses

  @unsafe @usableFromInline @inline(__always)
  func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    // Sound: all offsets are constants of the layout, 8-byte aligned, below the file's size.
    unsafe (base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  @unsafe @inline(__always)
  func half(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt32>> {
    unsafe (base + offset).assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  @unsafe @inline(__always)
  func short(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt16>> {
    unsafe (base + offset).assumingMemoryBound(to: Atomic<UInt16>.self)
  }

  // MARK: Fixed words

  /// The id of the store to which the table is bound.
  package var storeID: (UInt64, UInt64) {
    let first = unsafe word(SharedTableLayout.storeIDOffset).pointee.load(ordering: .relaxed)
    let second = unsafe word(SharedTableLayout.storeIDOffset + 8).pointee.load(ordering: .relaxed)
    return (first, second)
  }

  /// The store and generation to which the table is bound.
  package var binding: Binding { Binding(storeID: storeID, generation: generation) }

  /// The boot id of the system that created the table.
  package var bootID: UInt64 {
    unsafe word(SharedTableLayout.bootIDOffset).pointee.load(ordering: .relaxed)
  }

  /// The PID namespace of the processes that have the generation open.
  package var pidNamespace: UInt64 {
    unsafe word(SharedTableLayout.pidNamespaceOffset).pointee.load(ordering: .relaxed)
  }

  /// Stores this process's PID namespace, which later openers must share. The caller is an opener
  /// without other processes, so the namespace of earlier users does not apply.
  func adoptNamespace() {
    unsafe word(SharedTableLayout.pidNamespaceOffset).pointee.store(
      ProcessIdentity.pidNamespace, ordering: .relaxed)
  }

  /// The status of the mapped file; `links == 0` means that the file was deleted.
  package var fileStatus: FileStatus? { try? file.status }

  // MARK: The protocol

  /// Returns whether a value cached with the inverted read version `readVersion` is valid: neither
  /// its stamp slot nor the floor contains a newer commit version. Costs two atomic loads.
  @inline(__always)
  package func isCurrent(slot: StampSlot, readVersion: UInt64) -> Bool {
    // Duplicates `SharedTableView.isCurrent`: creating a view would retain and release references.
    let stamp = unsafe stamps[slot.index & stampMask].load(ordering: .acquiring)
    let floor = unsafe word(SharedTableLayout.floor).pointee.load(ordering: .acquiring)
    return stamp >= readVersion && floor >= readVersion
  }

  /// Returns whether a value cached with the inverted read version `readVersion` was not removed by one
  /// of its tags, whose hashes are `tags`.
  package func areCurrent(_ tags: [UInt64], readVersion: UInt64) -> Bool {
    tags.allSatisfy { isCurrent(slot: StampSlot(hash: $0), readVersion: readVersion) }
  }

  /// Returns the lowest read version that validates in a slot: the maximum of stamp and floor.
  package func minimumValidReadVersion(slot: StampSlot) -> UInt64 {
    let stamp = unsafe stamps[slot.index & stampMask].load(ordering: .acquiring)
    let floor = unsafe word(SharedTableLayout.floor).pointee.load(ordering: .acquiring)
    return ~min(stamp, floor)
  }

  /// Stores the stamp of a slot (W3). The caller holds the writer lock and commits immediately
  /// afterwards.
  package func stamp(slot: StampSlot, commitVersion: UInt64) {
    unsafe stamps[slot.index & stampMask].store(~commitVersion, ordering: .releasing)
  }

  /// Raises the invalidation floor: every value cached at a read version below `commitVersion`
  /// misses from now on.
  package func raiseFloor(to commitVersion: UInt64) {
    let wanted = ~commitVersion
    var current = unsafe word(SharedTableLayout.floor).pointee.load(ordering: .relaxed)
    while current > wanted {
      let (done, now) = unsafe word(SharedTableLayout.floor).pointee.compareExchange(
        expected: current, desired: wanted, ordering: .acquiringAndReleasing)
      if done { return }
      current = now
    }
  }

  /// The invalidation floor: the lowest read version that validates in any slot.
  package var floor: UInt64 {
    ~(unsafe word(SharedTableLayout.floor).pointee.load(ordering: .acquiring))
  }

  /// Whether the generation is fenced or superseded.
  package var isFenced: Bool {
    unsafe half(SharedTableLayout.condemned).pointee.load(ordering: .acquiring) != 0
  }

  /// Whether the next generation contains every commit of this one.
  package var isSuperseded: Bool {
    unsafe half(SharedTableLayout.condemned).pointee.load(ordering: .acquiring) == 2
  }

  /// Fences the generation: every process leaves it. A fence is permanent.
  package func fence() { mark(as: 1) }

  /// Marks the generation as completely copied: every process switches to its successor. The caller
  /// holds the writer lock, or no process can commit here any more.
  package func supersede() { mark(as: 2) }

  private func mark(as word: UInt32) {
    _ = unsafe half(SharedTableLayout.condemned).pointee.compareExchange(
      expected: 0, desired: word, ordering: .sequentiallyConsistent)
    fault(.condemnMarked)
    if !Mutant.condemnWithoutFloor.isActive { raiseFloor(to: UInt64.max) }
    advanceWakeWord()
  }

  /// The commit version of the newest write transaction that has begun.
  package var writerVersion: UInt64 {
    unsafe word(SharedTableLayout.writerVersion).pointee.load(ordering: .sequentiallyConsistent)
  }

  /// The pid of the process whose write transaction began last.
  package var writerPID: Int32 {
    let pid = unsafe word(SharedTableLayout.writerPID).pointee.load(
      ordering: .sequentiallyConsistent)
    return Int32(truncatingIfNeeded: pid)
  }

  /// Publishes the commit version `commitVersion` before any effect of the transaction is visible
  /// (W1).
  package func announceWriter(commitVersion: UInt64) {
    unsafe word(SharedTableLayout.writerPID).pointee.store(
      UInt64(UInt32(bitPattern: pid)), ordering: .releasing)
    unsafe word(SharedTableLayout.writerStart).pointee.store(
      ProcessIdentity.startTime, ordering: .releasing)
    unsafe word(SharedTableLayout.writerVersion).pointee.store(
      commitVersion, ordering: .sequentiallyConsistent)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
  }

  /// The commit version of the last transaction that stored its stamps.
  package var lastStamped: UInt64 {
    get { unsafe word(SharedTableLayout.lastStamped).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.lastStamped).pointee.store(newValue, ordering: .releasing) }
  }

  /// Returns the commit version of the last clear of a namespace, or of a namespace that shares its
  /// word.
  package func namespaceLabel(_ namespace: UInt32) -> UInt64 {
    let offset =
      SharedTableLayout.namespaceStamps
      + Int(namespace) % SharedTableLayout.namespaceStampCount * 8
    return ~(unsafe word(offset).pointee.load(ordering: .acquiring))
  }

  /// Raises the clear version of a namespace (W3). The caller holds the writer lock.
  package func stampNamespace(_ namespace: UInt32, commitVersion: UInt64) {
    let offset =
      SharedTableLayout.namespaceStamps
      + Int(namespace) % SharedTableLayout.namespaceStampCount * 8
    let wanted = ~commitVersion
    if unsafe word(offset).pointee.load(ordering: .relaxed) > wanted {
      unsafe word(offset).pointee.store(wanted, ordering: .releasing)
    }
  }

  /// Returns whether every commit version in the table belongs to a transaction that can have
  /// begun. `newest` is the last committed one, and no other process has the generation open; a
  /// killed writer may have published the version after it.
  func isPlausible(after newest: UInt64) -> Bool {
    [floor, writerVersion, lastStamped, logGap].allSatisfy { $0 <= newest &+ 1 }
      && max(loggedVersion, durableVersion) <= newest
  }
}
