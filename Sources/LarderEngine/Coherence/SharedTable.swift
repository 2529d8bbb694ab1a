// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem
public import Synchronization

/// The mapped table of a generation, shared by all processes. Format: `SharedTableLayout.swift`.
///
/// It is reached through atomics only. Labels grow; what is compared is stored inverted.
@safe @usableFromInline
package final class SharedTable: Sendable {
  // Fixed at open.
  private let region: MappedRegion
  private let file: OwnedFile
  private let pid = ProcessIdentity.pid
  package let shape: SharedTableShape
  package let generation: UInt64
  /// The position of this mapping among all that this process made. Unlike the generation's number it
  /// is never that of another table: a store that was deleted and created again counts from one.
  package let incarnation: UInt64
  private static let mappings = Atomic<UInt64>(0)
  @usableFromInline let recencyMask: UInt64
  @usableFromInline let stampMask: Int
  // Sound: all three point into `region`, 8-byte aligned, and live as long as `self`.
  @usableFromInline nonisolated(unsafe) let base: UnsafeMutableRawPointer
  @usableFromInline nonisolated(unsafe) let stamps: UnsafeMutablePointer<Atomic<UInt64>>
  @usableFromInline nonisolated(unsafe) let recency: UnsafeMutablePointer<Atomic<UInt64>>

  /// What a table file must say to be the right one.
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

  /// Maps an existing table; `nil` when the file is not a whole, valid table of this version.
  package init?(mapping file: OwnedFile) throws(SystemError) {
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
    let region = try MappedRegion(sharing: file, count: size, isZeroInForkedChild: true)
    self.file = file
    self.region = region
    self.shape = shape
    self.recencyMask = recency - 1
    self.stampMask = shape.stampSlots - 1
    self.generation = generation
    incarnation = SharedTable.mappings.wrappingAdd(1, ordering: .relaxed).newValue
    unsafe self.base = region.base
    unsafe self.stamps = (region.base + shape.stamps).assumingMemoryBound(
      to: Atomic<UInt64>.self)
    unsafe self.recency = (region.base + shape.recency).assumingMemoryBound(
      to: Atomic<UInt64>.self)
  }

  /// Writes a fresh table into a file: every stamp, the floor and the writer's labels are `label`.
  package static func create(
    in file: OwnedFile, binding: Binding, shape: SharedTableShape, label: UInt64, budget: UInt64,
    dirty: Bool, dataChanged: UInt64, syncInterval: UInt64
  ) throws(SystemError) {
    let size = shape.fileSize
    // The magic goes first and comes back last: a half-written table is no table.
    if try file.status.size > 0 { try file.write([UInt8](repeating: 0, count: 8), at: 0) }
    try file.truncate(to: size)
    try file.preallocate(size)
    var header = [UInt8](repeating: 0, count: 1024)
    header.store(SharedTableLayout.version, at: SharedTableLayout.versionOffset)
    header.store(binding.id0, at: SharedTableLayout.storeIDOffset)
    header.store(binding.id1, at: SharedTableLayout.storeIDOffset + 8)
    header.store(binding.generation, at: SharedTableLayout.generationOffset)
    header.store(UInt64(shape.stampSlots), at: SharedTableLayout.stampSlotsOffset)
    header.store(UInt64(shape.recencySlots), at: SharedTableLayout.recencySlotsOffset)
    header.store(UInt64(shape.processSlots), at: SharedTableLayout.processSlotsOffset)
    header.store(ProcessIdentity.bootID, at: SharedTableLayout.bootIDOffset)
    header.store(ProcessIdentity.pidNamespace, at: SharedTableLayout.pidNamespaceOffset)
    header.store(UInt64(size), at: SharedTableLayout.fileSizeOffset)
    header.store(dirty ? UInt32(1) : 0, at: SharedTableLayout.dirty)
    header.store(~label, at: SharedTableLayout.floor)
    header.store(label, at: SharedTableLayout.writerLabel)
    header.store(label, at: SharedTableLayout.lastStamped)
    header.store(budget, at: SharedTableLayout.budget)
    header.store(dataChanged, at: SharedTableLayout.dataChanged)
    header.store(syncInterval, at: SharedTableLayout.syncInterval)
    try file.write(header, at: 0)
    var middle = [UInt8](repeating: 0, count: shape.stamps - 1024)
    for index in 0..<SharedTableLayout.namespaceStampCount {
      middle.store(~label, at: SharedTableLayout.namespaceStamps - 1024 + index * 8)
    }
    try file.write(middle, at: 1024)
    var stamps = [UInt8](repeating: 0, count: shape.stampSlots * 8)
    for index in 0..<shape.stampSlots { stamps.store(~label, at: index * 8) }
    try file.write(stamps, at: shape.stamps)
    let zeros = [UInt8](repeating: 0, count: 1 << 16)
    var offset = shape.recency
    while offset < size {
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

  package var storeID: (UInt64, UInt64) {
    let first = unsafe word(SharedTableLayout.storeIDOffset).pointee.load(ordering: .relaxed)
    let second = unsafe word(SharedTableLayout.storeIDOffset + 8).pointee.load(ordering: .relaxed)
    return (first, second)
  }

  package var binding: Binding { Binding(storeID: storeID, generation: generation) }

  package var bootID: UInt64 {
    unsafe word(SharedTableLayout.bootIDOffset).pointee.load(ordering: .relaxed)
  }

  package var pidNamespace: UInt64 {
    unsafe word(SharedTableLayout.pidNamespaceOffset).pointee.load(ordering: .relaxed)
  }

  /// By an opener that is alone: those who come join its PID namespace, not that of earlier users.
  func adoptNamespace() {
    unsafe word(SharedTableLayout.pidNamespaceOffset).pointee.store(
      ProcessIdentity.pidNamespace, ordering: .relaxed)
  }

  /// The file behind the mapping; `links == 0` means that somebody deleted it.
  package var fileStatus: FileStatus? { try? file.status }

  // MARK: The protocol

  /// Whether a value filed with `seal` is the newest any process was told of: two loads.
  @inline(__always)
  package func isCurrent(slot: Int, seal: UInt64) -> Bool {
    // As the view does, which would count references first.
    let stamp = unsafe stamps[slot & stampMask].load(ordering: .acquiring)
    let floor = unsafe word(SharedTableLayout.floor).pointee.load(ordering: .acquiring)
    return stamp >= seal && floor >= seal
  }

  /// The newest label that forbids memory hits in a slot.
  package func minimumValidReadVersion(slot: Int) -> UInt64 {
    let stamp = unsafe stamps[slot & stampMask].load(ordering: .acquiring)
    let floor = unsafe word(SharedTableLayout.floor).pointee.load(ordering: .acquiring)
    return ~min(stamp, floor)
  }

  /// Under the writer lock, immediately before the commit.
  package func stamp(slot: Int, label: UInt64) {
    unsafe stamps[slot & stampMask].store(~label, ordering: .releasing)
  }

  /// Raises the floor: every value filed below `label` misses from now on.
  package func raiseFloor(to label: UInt64) {
    let wanted = ~label
    var current = unsafe word(SharedTableLayout.floor).pointee.load(ordering: .relaxed)
    while current > wanted {
      let (done, now) = unsafe word(SharedTableLayout.floor).pointee.compareExchange(
        expected: current, desired: wanted, ordering: .acquiringAndReleasing)
      if done { return }
      current = now
    }
  }

  package var floor: UInt64 {
    ~(unsafe word(SharedTableLayout.floor).pointee.load(ordering: .acquiring))
  }

  package var isFenced: Bool {
    unsafe half(SharedTableLayout.condemned).pointee.load(ordering: .acquiring) != 0
  }

  /// Whether every commit of this generation is in the one that took its place.
  package var isSuperseded: Bool {
    unsafe half(SharedTableLayout.condemned).pointee.load(ordering: .acquiring) == 2
  }

  /// Sends every process to another generation. Nothing ever takes this back.
  package func fence() { leave(as: 1) }

  /// Sends every process to the generation that was copied from this one. Under the writer lock,
  /// or when nobody can commit here any more.
  package func supersede() { leave(as: 2) }

  private func leave(as word: UInt32) {
    _ = unsafe half(SharedTableLayout.condemned).pointee.compareExchange(
      expected: 0, desired: word, ordering: .sequentiallyConsistent)
    fault(.condemnMarked)
    if !Mutant.condemnWithoutFloor.isActive { raiseFloor(to: UInt64.max) }
    advanceWakeWord()
  }

  /// The label of the newest write transaction that has begun.
  package var writerLabel: UInt64 {
    unsafe word(SharedTableLayout.writerLabel).pointee.load(ordering: .sequentiallyConsistent)
  }

  package var writerPID: Int32 {
    let pid = unsafe word(SharedTableLayout.writerPID).pointee.load(
      ordering: .sequentiallyConsistent)
    return Int32(truncatingIfNeeded: pid)
  }

  /// W1: makes `label` known before anything of the transaction can be seen.
  package func announceWriter(label: UInt64) {
    unsafe word(SharedTableLayout.writerPID).pointee.store(
      UInt64(UInt32(bitPattern: pid)), ordering: .releasing)
    unsafe word(SharedTableLayout.writerStart).pointee.store(
      ProcessIdentity.startTime, ordering: .releasing)
    unsafe word(SharedTableLayout.writerLabel).pointee.store(
      label, ordering: .sequentiallyConsistent)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
  }

  package var lastStamped: UInt64 {
    get { unsafe word(SharedTableLayout.lastStamped).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.lastStamped).pointee.store(newValue, ordering: .releasing) }
  }

  /// The label of the last removeAll of a namespace, or of one that shares its word.
  package func namespaceLabel(_ namespace: UInt32) -> UInt64 {
    let offset =
      SharedTableLayout.namespaceStamps
      + Int(namespace) % SharedTableLayout.namespaceStampCount * 8
    return ~(unsafe word(offset).pointee.load(ordering: .acquiring))
  }

  package func stampNamespace(_ namespace: UInt32, label: UInt64) {
    let offset =
      SharedTableLayout.namespaceStamps
      + Int(namespace) % SharedTableLayout.namespaceStampCount * 8
    let wanted = ~label
    if unsafe word(offset).pointee.load(ordering: .relaxed) > wanted {
      unsafe word(offset).pointee.store(wanted, ordering: .releasing)
    }
  }

  /// Whether no label of the table is of a transaction that cannot have begun, when `newest` is the
  /// last one committed and nobody else is here: a killed writer announced the one after it.
  func isPlausible(after newest: UInt64) -> Bool {
    floor <= newest &+ 1 && writerLabel <= newest &+ 1 && lastStamped <= newest &+ 1
  }

  // MARK: Recency

  /// Takes over what another generation's table knows of use: recency, its clock, the counters.
  package func inherit(from old: SharedTable) {
    for counter in Counter.allCases {
      unsafe word(SharedTableLayout.retired + counter.rawValue * 8).pointee.store(
        old.total(counter), ordering: .relaxed)
    }
    let tick = unsafe old.word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    unsafe word(SharedTableLayout.clock).pointee.store(tick, ordering: .relaxed)
    guard shape.recencySlots == old.shape.recencySlots else { return }
    for index in 0..<shape.recencySlots {
      let tick = unsafe old.recency[index].load(ordering: .relaxed)
      if tick != 0 { unsafe recency[index].store(tick, ordering: .relaxed) }
    }
  }

  /// Marks a key as used now. Wait-free; at most one relaxed store, usually none.
  @inline(__always)
  package func touch(hash: UInt64) {
    let now = unsafe word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    if lastUse(hash: hash) != now { setLastUse(hash: hash, tick: now) }
  }

  /// When a key of this hash was last used, in ticks of the recency clock.
  @inline(__always)
  package func lastUse(hash: UInt64) -> UInt64 {
    let index = Int(truncatingIfNeeded: hash & recencyMask)
    return unsafe recency[index].load(ordering: .relaxed)
  }

  @inline(__always)
  package func setLastUse(hash: UInt64, tick: UInt64) {
    let index = Int(truncatingIfNeeded: hash & recencyMask)
    unsafe recency[index].store(tick, ordering: .relaxed)
  }

  /// Under the writer lock: the clock never stands still between writes and never falls behind the
  /// wall clock by more than one write.
  package func advanceClock(milliseconds: Int64) -> UInt64 {
    let last = unsafe word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    let tick = max(last &+ 1, UInt64(bitPattern: max(milliseconds, 0)) << 20)
    // Others may raise it meanwhile; see below.
    return unsafe word(SharedTableLayout.clock).pointee.max(tick, ordering: .relaxed).newValue
  }

  /// Without the writer lock, about once a second: where nobody writes, reads still know when.
  package func raiseClock(milliseconds: Int64) {
    let tick = UInt64(bitPattern: max(milliseconds, 0)) << 20
    unsafe word(SharedTableLayout.clock).pointee.max(tick, ordering: .relaxed)
  }
}
