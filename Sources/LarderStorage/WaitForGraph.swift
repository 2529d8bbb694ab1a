// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// Detection of deadlocks between striped locks.
//
// The closure of an update may write other storages: it holds a lock and waits for another. If such
// closures cross (A's writes B while B's writes A), each would wait for the other forever. So a holder
// that must wait registers here, and checks whether the awaited holder waits, directly or through others,
// for a lock that it holds. If so, it does not wait but throws `deadlock`, which releases its lock, and
// the other one continues.
//
// One check at the start of a wait is sufficient. A released lock passes to the next waiter, which waits
// for no other lock then, so passing a lock closes no cycle.
//
// A storage is one set of turns, however many ways lead to it: SharedStripedLocks finds them by what the storage
// is (a folder's device and inode, an object).

/// The wait-for graph of the holders of striped locks.
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

  /// Registers a request and begins to wait.
  ///
  /// - Returns: `true` if the lock is free by now.
  /// - Throws: ``StorageError/Code/deadlock`` if the request would wait for itself.
  static func wait(
    _ request: Request, begin: () -> Bool, giveUp: () -> Bool
  ) throws -> Bool {
    try requests.withLock { requests in
      if begin() { return true }
      guard isCircle(request, requests) else {
        requests[ObjectIdentifier(request.mark)] = request
        return false
      }
      // The request was granted in the meantime: there is no cycle.
      guard giveUp() else { return false }
      throw StorageError.deadlock
    }
  }

  /// Ends a request, if it exists.
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
        // The request is granted and has not ended yet.
        if wanted !== other.mark { next.append(wanted) }
      }
    }
    return false
  }
}

/// The striped locks of identities in this process, retained while they are in use.
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

  /// Returns the striped lock of an identity. All callers get the same one while it is retained.
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
