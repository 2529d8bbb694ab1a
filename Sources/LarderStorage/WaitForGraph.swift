// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// Turns that wait for each other.
//
// The closure of an update may write other storages: it holds a turn and waits for another. When such
// closures cross (A's writes B while B's writes A), each would wait for the other for ever. So whoever
// holds a turn and has to wait enters itself here, and looks whether the one it waits for waits, directly
// or by way of others, for a turn it holds itself. If so, it does not wait but fails with
// `deadlock`, its own turn ends with that error, and the other goes on.
//
// One look at the beginning is enough. A turn is handed from one to the next; the next has waited for
// nothing else and waits for nothing when it gets it, so that handing on closes no circle.
//
// A storage is one set of turns, however many ways lead to it: SharedStripedLocks finds them by what the storage
// is (a folder's device and inode, an object).

/// Who waits for whom among those who hold turns.
enum WaitForGraph {
  struct Request: Sendable {
    /// The turn waited for, when it comes.
    let mark: StripedLock.LockHolder
    /// The turns that do not end before.
    let holding: [StripedLock.LockHolder]
    let turns: StripedLock
    let stripe: Int
  }

  private static let requests = Mutex<[ObjectIdentifier: Request]>([:])

  /// Enters a request and begins to wait; `true`: there is nothing to wait for any more.
  ///
  /// - Throws: ``StorageError/Code/deadlock`` if it would wait for itself.
  static func wait(
    _ request: Request, begin: () -> Bool, giveUp: () -> Bool
  ) throws -> Bool {
    try requests.withLock { requests in
      if begin() { return true }
      guard isCircle(request, requests) else {
        requests[ObjectIdentifier(request.mark)] = request
        return false
      }
      // Its turn has come meanwhile: no circle any more.
      guard giveUp() else { return false }
      throw StorageError.deadlock
    }
  }

  /// Ends a request; without effect when there is none.
  static func remove(_ mark: StripedLock.LockHolder) {
    requests.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(mark)) }
  }

  private static func isCircle(
    _ request: Request, _ requests: [ObjectIdentifier: Request]
  ) -> Bool {
    var seen: Set<ObjectIdentifier> = []
    var next = [request.turns.holder(of: request.stripe)]
    while let holder = next.popLast() {
      guard let holder else { continue }
      if request.holding.contains(where: { $0 === holder }) { return true }
      guard seen.insert(ObjectIdentifier(holder)).inserted else { continue }
      for other in requests.values where other.holding.contains(where: { $0 === holder }) {
        let wanted = other.turns.holder(of: other.stripe)
        // It has got it, and has not said so yet.
        if wanted !== other.mark { next.append(wanted) }
      }
    }
    return false
  }
}

/// The turns of what has an identity in the process, as long as anybody uses them.
package enum SharedStripedLocks {
  private struct Reference: Sendable {
    weak let turns: StripedLock?
  }

  // Keys are hashed and compared only; those used here are identities.
  private struct Table: @unchecked Sendable {
    var references: [AnyHashable: Reference] = [:]
    var limit = 64
  }

  private static let table = Mutex(Table())

  /// The turns of an identity. They are the same for all who ask while one of them keeps them.
  package static func of<Identity: Hashable & Sendable>(_ identity: Identity) -> StripedLock {
    table.withLock { table in
      if let turns = table.references[identity]?.turns { return turns }
      if table.references.count >= table.limit {
        table.references = table.references.filter { $0.value.turns != nil }
        table.limit = max(64, 2 * table.references.count)
      }
      let turns = StripedLock()
      table.references[identity] = Reference(turns: turns)
      return turns
    }
  }
}
