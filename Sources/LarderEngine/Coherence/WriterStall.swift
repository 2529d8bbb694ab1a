// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The cause of a wait of a write until its time limit.
///
/// A process is named only if it is stopped, or has had the writer lock for as long as the write has waited: one that
/// has it at the end of the wait may have come last. A process that waits for the disk says so in its slot of the
/// shared table (``SharedTable/waitingForDisk(process:_:)``): it cannot be hurried, and its end would change nothing.
enum WriterStall: Equatable {
  /// A process that is stopped, or inside one transaction.
  case holder(Int32)
  /// A sync, of a process that has the writer lock or of several after each other.
  case disk(Int32?)
  /// An earlier transaction of this process.
  case ownTransaction
  /// Other writers, one after the other.
  case turns

  var pid: Int32? {
    switch self {
    case .holder(let pid): pid
    case .disk(let pid): pid
    case .ownTransaction: ProcessIdentity.pid
    case .turns: nil
    }
  }

  /// The cause and the remedy, for a write that was withdrawn.
  fileprivate var message: String {
    switch self {
    case .holder(let pid):
      "process \(pid) holds the writer lock. Nothing was written. "
        + "Resume it (kill -CONT \(pid)) or terminate it."
    case .disk(let pid):
      "\(pid.map(Self.name) ?? "the writers before") waited for the disk: a sync of the store had not ended. "
        + "Nothing was written. Check the disk; the processes are not at fault."
    case .ownTransaction:
      "an earlier transaction of this process (\(ProcessIdentity.pid)) has not ended. Nothing was written. "
        + "Keep the closures of `store.write` short."
    case .turns:
      "other writers came first, one after the other. Nothing was written. Store several values in one "
        + "transaction, or raise `writeTimeout`."
    }
  }

  fileprivate static func name(_ pid: Int32) -> String {
    pid == ProcessIdentity.pid
      ? "an earlier write of this process (\(pid))" : "process \(pid), which holds the writer lock,"
  }
}

extension StoreCore {
  /// Returns what a write of this process has waited for during `writeTimeout`.
  func stall() -> WriterStall {
    guard let generation = try? generation() else { return .ownTransaction }
    let table = generation.table
    let writer = generation.writer
    if writer != ProcessIdentity.pid {
      // A program that uses LMDB without the ticket has no slot.
      guard let slot = table.slot(ofProcess: writer) else { return .holder(writer) }
      let limit = options.writeTimeout.nanoseconds
      let held = table.writingNanoseconds(process: slot, now: Clocks.monotonicNanoseconds())
      // Without a start it has released the lock since, or has just got it.
      let isHolder = held.map { $0 >= limit - limit / 8 } ?? false
      if ProcessIdentity.isStopped(writer) == true { return .holder(writer) }
      if table.isWaitingForDisk(process: slot) { return .disk(isHolder ? writer : nil) }
      if isHolder { return .holder(writer) }
    }
    if bodyThread.load(ordering: .relaxed) != 0 { return .ownTransaction }
    if generation.isWaitingForDisk { return .disk(ProcessIdentity.pid) }
    return writer == ProcessIdentity.pid ? .ownTransaction : .turns
  }

  /// Returns the error of a write that was withdrawn.
  func writerStalled() -> StoreError {
    let stall = stall()
    return StoreError(
      .writerStalled, during: "write", path: directory.path,
      "Write timed out after \(options.writeTimeout): \(stall.message)", pid: stall.pid)
  }

  /// The number of time limits for which a request is awaited that is in a transaction.
  static let patience = 3

  /// Returns the error of a request that is in a transaction of this process.
  func outcomeUnknown() -> StoreError {
    let pid = ProcessIdentity.pid
    let isOfDisk = stall() == .disk(pid)
    return StoreError(
      .outcomeUnknown, during: "write", path: directory.path,
      "The commit of this process (\(pid)) has not ended after \(options.writeTimeout * Self.patience)"
        + "\(isOfDisk ? ": it waits for the disk. Check the disk" : "; its outcome is unknown"). "
        + "Read the value to see whether it was stored.", pid: pid)
  }

  /// Returns the error of a write that another process may have executed.
  func outcomeUnknown(by pid: Int32) -> StoreError {
    StoreError(
      .outcomeUnknown, during: "write", path: directory.path,
      "The commit of process \(pid) did not finish within \(options.writeTimeout); its outcome is "
        + "unknown. Read the value to see whether it was stored.",
      pid: pid)
  }
}

extension Generation {
  /// Whether the thread of this process that writes, or one whose transaction is committed, waits for the disk.
  fileprivate var isWaitingForDisk: Bool {
    table.isWaitingForDisk(process: process)
      || waitsForDisk && durableWaits.load(ordering: .relaxed) > 0
  }

  /// Runs syncs for which the next writer waits. The caller has the process writer lock.
  @inline(__always)
  func waitingForDisk<R>(_ body: () throws -> R) rethrows -> R {
    try table.waitingForDisk(process: process, body)
  }
}
