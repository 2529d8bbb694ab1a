// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// READING WITHOUT A WRITE
//
// A reader of LMDB writes its snapshot to `lock.mdb`, so that writers keep its pages, and counts in `shared.table`.
// Where no process has the store open, no writer has to know of it. So a process that only reads
// (`StoreOptions.readsOnly`) opens such a store without a write to any of its files; it may be on a read-only file
// system:
//
//   Q1  `gate` is locked shared, through a descriptor that can only read. Openers lock it alone, so none comes while
//       the view lasts. Several views may.
//   Q2  Byte 0 of `presence` is free: no process has the generation open. Otherwise the gate is released, and this
//       process takes part as the others do.
//   Q3  The generation is opened by the steps of an opener that is alone. LMDB opens `data.mdb` to read, without
//       `lock.mdb`. The table is mapped so that a page that is written to belongs to this process alone, and is made
//       in memory if there is none. No byte of `presence` is locked.
//   Q4  An opener that finds the gate taken locks byte 0 of `gate` (`OpenLock.swift`). The thread of the view sees
//       that within 10 ms, and takes part from then on:
//         a  It locks byte 1 of `gate`, so that one view at a time does this. The gate is still shared, so no other
//            process opens or closes: this one opens the generation a second time, as those that take part do.
//         b  It begins a snapshot there. No process has written since Q2, so it is that of every read in progress in
//            the view, and its reader slot keeps their pages.
//         c  It fences its own copy of the table: a read that begins in the view after that is rejected (R2), and one
//            that has begun has copied its roots. A verification, which reads without a snapshot, begins again.
//         d  It releases the gate. Once the reads in progress have ended, it closes the view, and then the snapshot.
//       Where it may not write, (a) fails: it waits for the reads in progress first, closes the view and releases the
//       gate; openers wait that long. A new view does not begin while byte 0 is locked.
//
// Uses and reads are counted in the copy of the table, and so are lost with it.

/// The hold of a process on a generation that it reads without a write.
final class QuietView: Sendable {
  private let gate: OpenLock
  private let thread = BackgroundThread()
  private let incarnation = Atomic<UInt64>(0)
  /// The snapshot that keeps the pages of the reads in progress after the gate was released (Q4b).
  private let pin = Mutex<Pin?>(nil)

  private struct Pin {
    let generation: Generation
    let reader: PooledReader
  }

  private static let views = Mutex<[UInt64: QuietView]>([:])
  /// The number of views, so that stores without one look no further.
  private static let count = Atomic<Int>(0)
  private static let checkNanoseconds: UInt64 = 10_000_000

  private init(gate: OpenLock) { self.gate = gate }

  /// Runs Q1.
  ///
  /// - Returns: `nil` if an opener waits, or there is no gate.
  static func enter(
    _ directory: StoreDirectory, timeout: Duration
  ) throws(StoreError) -> QuietView? {
    try OpenLock.share(directory, timeout: timeout).map { QuietView(gate: $0) }
  }

  /// The view of a generation, if it is read without a write.
  static func of(_ generation: Generation) -> QuietView? {
    if count.load(ordering: .acquiring) == 0 { return nil }
    return views.withLock { $0[generation.incarnation] }
  }

  func begin(for generation: Generation) {
    incarnation.store(generation.incarnation, ordering: .releasing)
    Self.views.withLock { $0[generation.incarnation] = self }
    Self.count.add(1, ordering: .acquiringAndReleasing)
  }

  /// Ends the view, after its environment was closed.
  func end() {
    let known = incarnation.exchange(0, ordering: .acquiringAndReleasing)
    let isOpen = known != 0 && Self.views.withLock { $0.removeValue(forKey: known) } != nil
    if isOpen { Self.count.subtract(1, ordering: .acquiringAndReleasing) }
    gate.leave()
    unpin()
    // Its thread may wait for the caller.
    thread.stop(waits: false)
  }

  /// Whether the calling thread is the one of the view, which alone lets openers in.
  var isOnItsThread: Bool { thread.isCurrent }

  /// Whether this process takes part, and only the reads in progress need the view.
  var hasJoined: Bool { pin.withLock { $0 != nil } }

  /// Runs a closure while no other view begins to take part (Q4a).
  ///
  /// - Returns: `nil` if this process may not write to the gate, or another view takes longer than `timeout`.
  func joining<R>(
    _ directory: StoreDirectory, timeout: Duration, _ body: () throws(StoreError) -> R?
  ) throws(StoreError) -> R? {
    guard let turn = gate.joiningTurn(directory, timeout: timeout) else { return nil }
    defer { turn.unlock() }
    return try body()
  }

  /// Keeps the pages of the reads in progress by a snapshot of the generation as others have it open (Q4b).
  ///
  /// - Returns: `false` if it is another snapshot.
  func pin(_ old: Generation, in new: Generation) -> Bool {
    guard let reader = try? new.pool.take() else { return false }
    guard let id = try? reader.renew(in: new.environment),
      id == old.environment.information.lastTransaction,
      new.number == old.number
    else {
      reader.reset()
      new.pool.giveBack(reader)
      return false
    }
    pin.withLock { $0 = Pin(generation: new, reader: reader) }
    return true
  }

  /// Ends the snapshot that kept the pages.
  func unpin() {
    guard let pin = pin.withLock({ $0.take() }) else { return }
    pin.reader.reset()
    pin.generation.pool.giveBack(pin.reader)
  }

  /// Lets openers in (Q4d).
  func releaseGate() { gate.leave() }

  /// Starts the thread that makes room for an opener (Q4).
  func watch(_ leave: @escaping @Sendable (QuietView) -> Void) throws(SystemError) {
    try thread.start(after: Self.checkNanoseconds) { [weak self] in
      guard let self else { return Self.checkNanoseconds }
      thread.rest()
      if hasJoined || gate.isAwaited { leave(self) }
      return Self.checkNanoseconds
    }
  }

  func stopWatching() { thread.stop() }

  // MARK: Support

  /// Creates a file without a name, in memory where that is possible.
  static func fileWithoutName() throws(SystemError) -> OwnedFile {
    let name = "larder-\(ProcessIdentity.pid)-\(UInt64.random(in: 0...UInt64.max))"
    for directory in ["/dev/shm", "/tmp"] {
      guard let file = try? OwnedFile(path: directory + "/" + name, creation: .createNew) else {
        continue
      }
      try FileSystem.removeFile(file.path)
      return file
    }
    let file = try OwnedFile(path: "/var/tmp/" + name, creation: .createNew)
    try FileSystem.removeFile(file.path)
    return file
  }

  /// Returns the error to throw where a process that only reads has to take part, and may not write.
  static func explained(_ error: StoreError, _ opener: StoreOpener) -> StoreError {
    guard opener.options.readsOnly, let number = error.errorNumber,
      SystemError.isReadOnly(number)
        || SystemError(errno: number, operation: "open", path: nil).isPermissionDenied
    else { return error }
    return StoreError(
      .inUse, during: "open", path: opener.directory.path,
      "Another process uses the store, or is to be waited for, and this one may not write to its files (errno "
        + "\(number)): a reader writes to `gate`, `presence`, `lock.mdb` and `shared.table` while others may write. "
        + "Run the command where the store can be written, by its owner, or read a copy (`larder copy`).",
      errorNumber: number)
  }
}

extension StoreOpener {
  /// Opens the current generation without a write, if the process only reads and no process has the store open.
  func openQuietly() throws(StoreError) -> Generation? {
    guard options.readsOnly, !options.awaitsOthers, !directory.isBeside,
      let view = try QuietView.enter(directory, timeout: options.openTimeout)
    else { return nil }
    var opener = self
    opener.view = view
    do throws(StoreError) {
      var isBeside = false
      if options.durability == .cache {
        isBeside = try isInUse(directory.inner(StoreDirectory.besideName))
      }
      if !isBeside, let generation = try opener.openLocked() { return generation }
    } catch {
      view.end()
      throw error
    }
    view.end()
    return nil
  }
}

extension StoreOpener {
  /// Opens the current generation as those do that take part. The caller shares the open lock with other views, and is
  /// the only one that does this.
  ///
  /// - Returns: `nil` if it takes part in no other store than that of the view.
  func openJoining() throws(StoreError) -> Generation? {
    if options.durability == .cache,
      try isInUse(directory.inner(StoreDirectory.besideName))
    {
      return nil
    }
    return try openLocked()
  }
}

extension StoreCore {
  /// Starts to make room for openers, if this process reads without a write.
  func watchQuietView() throws {
    let generation = try generation()
    guard let view = QuietView.of(generation) else { return }
    // The generation until the view ends, which also ends the thread.
    try view.watch { [weak self] view in self?.leave(view, of: generation) }
  }

  /// Takes part for an opener that waits, and closes the view after its last read.
  private func leave(_ view: QuietView, of generation: Generation) {
    do {
      if try self.generation() === generation { try switchGeneration(from: generation) }
    } catch { report(error) }
    if view.hasJoined { generation.close(gateTimeout: options.openTimeout) }
  }

  /// Opens the generation of a view a second time, as one of the processes of the store (Q4a to Q4d).
  ///
  /// - Returns: `nil` if that is not possible while the view lasts.
  func join(_ view: QuietView, from old: Generation) throws(StoreError) -> Generation? {
    let opener = StoreOpener(
      directory: directory, options: notices.adopting(options), firstNumber: old.number + 1)
    var isClosed = false
    // Where this fails, the store is opened again after the view has been closed, and that error is thrown.
    let joined = try? view.joining(directory, timeout: options.openTimeout) {
      () throws(StoreError) -> Generation? in
      guard let new = try opener.openJoining() else { return nil }
      if view.pin(old, in: new) {
        if publish(new, after: old) { return new }
        isClosed = true
        view.unpin()
      }
      new.closeUnused()
      return nil
    }
    if isClosed { throw .closed("use") }
    guard let new = joined else { return nil }
    old.table.fence()
    view.releaseGate()
    return new
  }
}
