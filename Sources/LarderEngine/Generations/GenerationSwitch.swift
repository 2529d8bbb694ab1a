// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A switch to the successor of a generation, which one thread of this process performs.
///
/// It can wait for the open lock, and so for another process. The threads that need the successor wait for
/// it until their own deadlines, and have the error of the one that waited for the process.
final class GenerationSwitch: Sendable {
  private let hasEnded = Event()
  private let failure = Mutex<StoreError?>(nil)
  private let thread = OSThread.token

  /// Ends the waits, with an error if the switch has failed.
  func end(_ error: StoreError?) {
    failure.withLock { $0 = error }
    hasEnded.set()
  }

  /// Waits for the end of the switch, and a moment longer than the deadline: the thread that switches has the
  /// same one if both began together, and its error names what it waited for.
  ///
  /// - Throws: The error of the switch; ``StoreError/Code/openTimeout`` if it has not ended by then, with the
  ///   process that holds the open lock.
  func wait(until deadline: UInt64, in store: StoreCore) throws(StoreError) {
    if thread == OSThread.token { throw .generationReplacedDuringRead(path: store.directory.path) }
    if hasEnded.wait(nanoseconds: StoreCore.nanoseconds(until: deadline) + Self.grace) {
      if let error = failure.withLock({ $0 }) { throw error }
      return
    }
    throw OpenLock.timedOut(store.directory, after: store.options.openTimeout)
  }

  /// Waits for the end of the switch, at most for a time.
  func awaitEnd(after time: Duration) {
    if thread != OSThread.token { hasEnded.wait(nanoseconds: Clocks.nanoseconds(of: time)) }
  }

  private static let grace: UInt64 = 250_000_000
}

extension StoreError {
  /// Returns the error of a switch that waits for a read of this process.
  static func readNotEnded(_ timeout: Duration, path: String) -> StoreError {
    StoreError(
      .openTimeout, during: "use", path: path,
      "The store has new files, and a read of this process (\(ProcessIdentity.pid)) has kept the old ones "
        + "open for longer than \(timeout). Keep the closures of `store.read` short, and let them wait for "
        + "no other use of the store.", pid: ProcessIdentity.pid)
  }
}
