// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The generations this process has left and could not close in time: somebody stopped in the gate,
/// or a thread that does not come out of a write.
///
/// Their locks still say that this process has them open. Whoever opens the store again finds them
/// here, and closes them before it takes the locks for those of a second copy of the library.
enum DeferredGenerationCloses {
  private static let list = Mutex<[Generation]>([])

  static func add(_ generation: Generation) {
    list.withLock { $0.append(generation) }
  }

  enum Outcome {
    /// There is none of that path.
    case none
    case closed
    /// It cannot be closed now either.
    case stuck
  }

  /// Closes the one of a real path, by whoever holds its gate.
  static func close(path: String) -> Outcome {
    let found = list.withLock { list in
      list.firstIndex { $0.realPath == path }.map { list.remove(at: $0) }
    }
    guard let found else { return .none }
    if found.closeInGate() { return .closed }
    add(found)
    return .stuck
  }
}
