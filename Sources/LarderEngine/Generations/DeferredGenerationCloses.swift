// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The generations that this process has left and could not close in time, because a process is
/// stopped while it holds the open lock, or a thread does not return from a write.
///
/// Their locks still mark them as open in this process. The next opening of the store in this
/// process finds them here and closes them, so that it does not take the locks for those of a
/// second copy of the library.
enum DeferredGenerationCloses {
  private static let list = Mutex<[Generation]>([])

  static func add(_ generation: Generation) {
    list.withLock { $0.append(generation) }
  }

  enum Outcome {
    /// No generation of that path is deferred.
    case none
    case closed
    /// The generation cannot be closed now either, because a process, or this one, writes or syncs.
    case stuck(Int32)
  }

  /// Closes the deferred generation of a real path. The caller holds its open lock.
  static func close(path: String) -> Outcome {
    let found = list.withLock { list in
      list.firstIndex { $0.realPath == path }.map { list.remove(at: $0) }
    }
    guard let found else { return .none }
    if found.closeInGate() { return .closed }
    add(found)
    return .stuck(found.writer)
  }
}
