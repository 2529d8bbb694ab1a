// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The exclusive right to write to one environment: first among the threads of this process, then,
/// by the ticket in the gate file, among the processes. Its holder finds LMDB's writer lock free.
@safe
final class WriterTurn: Sendable {
  // Safe: the memory of both tickets lives as long as this object.
  private nonisolated(unsafe) let own: UnsafeMutablePointer<UInt32>
  private let region: MappedRegion
  private let threads: WriterTicket
  private let processes: WriterTicket
  private let gate: EnvironmentOpenLock

  init(_ region: MappedRegion, offset: Int, gate: EnvironmentOpenLock) {
    unsafe own = .allocate(capacity: 1)
    unsafe own.initialize(to: 0)
    unsafe threads = WriterTicket(at: UnsafeMutableRawPointer(own))
    unsafe processes = WriterTicket(at: region.base + offset)
    self.region = region
    self.gate = gate
  }

  deinit { unsafe own.deallocate() }

  /// The identifier of every thread of this process in its ticket, which one of them holds.
  private static let thread = 0
  private var process: Int { Int(ProcessIdentity.pid) }

  /// Acquires the right to write, which ``end()`` releases.
  ///
  /// - Parameter proceed: A closure that is called every 10 ms at least while the call waits; it
  ///   throws to end the wait.
  /// - Returns: `false` if the deadline passed first.
  func take(
    in handle: EnvironmentHandle, timeout: Duration, proceed: () throws -> Void
  ) throws -> Bool {
    let isMine = threads.tryTake(as: Self.thread)
    let isTaken = isMine && processes.tryTake(as: process)
    if isTaken, handle.writerThread == nil { return true }
    let deadline = Clocks.deadline(after: timeout)
    guard
      try threads.wait(
        as: Self.thread, isHeld: isMine, until: deadline, isAlive: { _ in true },
        isLockFree: { true }, proceed: isMine ? {} : proceed)
    else { return false }
    var wait = WriterLockWait()
    do {
      let process = process
      let isMine = try processes.wait(
        as: process, isHeld: isTaken || processes.holder == process, until: deadline,
        isAlive: { $0 != process && gate.isPresent($0) },
        isLockFree: { handle.isWriterLockFree(for: &wait) }, proceed: proceed)
      if !isMine { threads.release(as: Self.thread) }
      return isMine
    } catch {
      processes.release(as: process)
      threads.release(as: Self.thread)
      throw error
    }
  }

  func end() {
    processes.release(as: process)
    threads.release(as: Self.thread)
  }

  /// Returns the process whose write others wait for, or `nil` if it has ended by now.
  func writer(in handle: EnvironmentHandle) -> Int32? {
    if let thread = handle.writerThread {
      return ProcessIdentity.process(ofThread: thread) ?? thread
    }
    if let holder = processes.holder { return Int32(truncatingIfNeeded: holder) }
    return threads.holder == nil ? nil : ProcessIdentity.pid
  }
}
