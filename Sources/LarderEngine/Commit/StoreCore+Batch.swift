// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// What the holder of the writer's role does with the queue: one transaction, one result a record.
extension StoreCore {
  // MARK: One batch

  /// - Returns: Why nothing was taken from the queue: the time of the leader was up.
  func commitQueued() -> StoreError? {
    var batch: [WriteRequest] = []
    do {
      let label = try withGeneration { generation in
        try transact(in: generation) { transaction in
          // Taken after the writer lock is ours: what came meanwhile goes along, and what waits
          // for a stopped writer can still be taken back.
          if batch.isEmpty { batch = queue.state.withLock { WriteQueue.takeBatch(&$0) } }
          return try apply(batch, to: &transaction)
        }
      }
      complete(batch, label.label, label.result)
    } catch let error as StoreError where error.code == .writerStalled && batch.isEmpty {
      return error
    } catch {
      if batch.isEmpty { batch = queue.state.withLock { WriteQueue.takeBatch(&$0) } }
      // Once more would be a second write of what may be visible already.
      let isUnknown = StoreError(wrapping: error, during: "write").code == .outcomeUnknown
      if batch.count == 1 || isUnknown {
        for record in batch { commitAlone(record, after: error) }
      } else {
        for record in batch { commitAlone(record, after: nil) }
      }
    }
    return nil
  }

  /// Commits one record that failed in company, or on a full disk.
  private func commitAlone(_ record: WriteRequest, after first: (any Error)?) {
    var failure = first
    for attempt in 0...StoreCore.diskRounds where attempt == 0 ? first == nil : true {
      if attempt > 0 {
        guard options.durability == .cache, isStorageFull(failure) else { break }
        evictForDiskSpace(attempt)
      }
      do {
        let done = try withGeneration { generation in
          try transact(in: generation) { try apply([record], to: &$0) }
        }
        complete([record], done.label, done.result)
        return
      } catch {
        failure = error
      }
    }
    let error = StoreError(
      wrapping: failure ?? EngineSignal.generationChanged, during: "write", path: directory.path)
    record.finish(.failed(error))
    settle([record])
    if record.isWriteBehind { report(error) }
  }

  private static let diskRounds = 8

  /// Room for what is wanted, from what is least wanted: pages freed here are used again without the
  /// file growing.
  ///
  /// A transaction copies each page it changes, and what it frees is there for the next but one. So
  /// where there is no room at all, only what touches few pages gets through: neighbours; and two
  /// transactions that change next to nothing have to come between.
  private func evictForDiskSpace(_ round: Int) {
    func evict(_ body: @escaping (inout StoreTransaction) throws -> Void) -> Bool {
      (try? withGeneration { try transact(in: $0, body) }) != nil
    }
    if round > 1 || !evict({ try $0.evict(share: 256) }) {
      _ = [32, 8, 1].first { count in evict { try $0.evictNeighbours(count) } }
    }
    for _ in 0..<2 { try? bump() }
  }

  private func isStorageFull(_ error: (any Error)?) -> Bool {
    guard let error else { return false }
    return StoreError(wrapping: error, during: "write").code == .storageFull
  }

  /// W2: the records in order. What a record alone cannot have is its result, not an error.
  private func apply(
    _ batch: [WriteRequest], to transaction: inout StoreTransaction
  ) throws -> [WriteRequest.Result] {
    var results: [WriteRequest.Result] = []
    results.reserveCapacity(batch.count)
    let generation = transaction.generation
    let label = transaction.label
    for record in batch {
      let (space, key) = (record.space, record.key)
      record.begin(in: generation, label: label)
      try fault(throwing: .betweenPuts)
      var changed = true
      switch record.kind {
      case .put(let content):
        let hash = space!.hash(of: key, in: generation)
        // The budget may have shrunk since the record was queued. Its neighbours are unharmed.
        if let refusal = transaction.refusal(of: content, for: key) {
          results.append(.failed(refusal))
          if record.isWriteBehind { report(refusal) }
          continue
        }
        generation.table.cancelLeases(hash: hash)
        try transaction.put(content, forKey: key, hash: hash, in: space!)
        generation.count(.sets)
      case .remove:
        let hash = space!.hash(of: key, in: generation)
        generation.table.cancelLeases(hash: hash)
        changed = try transaction.remove(key, hash: hash, in: space!)
        if changed { generation.count(.removals) }
      case .fill(let content, let permit):
        try fault(throwing: .leaseBeforeFill)
        let hash = space!.hash(of: key, in: generation)
        let isTooLarge = transaction.refusal(of: content, for: key) != nil
        if !isTooLarge, permit.allowsFill(hash: hash, in: transaction) {
          try transaction.put(content, forKey: key, hash: hash, in: space!)
          generation.count(.sets)
        } else {
          generation.count(.rejectedFills)
          changed = false
        }
      case .removeDamaged(let written):
        let hash = space!.hash(of: key, in: generation)
        changed = try transaction.removeItems(hash: hash) { $0.header.label == written } > 0
      case .bump: transaction.force()
      case .barrier, .exclusive: break
      }
      results.append(.done(label: label, changed: changed))
    }
    return results
  }

  /// W5: each record of the batch gets its result; of several for one key only the last is filed.
  private func complete(_ batch: [WriteRequest], _ label: UInt64, _ results: [WriteRequest.Result])
  {
    if batch.count == 1 {
      batch[0].finish(results[0])
      settle(batch)
      return
    }
    var isFinal = [Bool](repeating: true, count: batch.count)
    if !Mutant.combinerFilesFirst.isActive {
      var seen: Set<WriteQueue.PendingKey> = []
      for index in batch.indices.reversed() {
        guard let space = batch[index].space else { continue }
        if case .fill = batch[index].kind, case .done(_, false) = results[index] { continue }
        let key = WriteQueue.PendingKey(space: space.name, key: batch[index].key)
        isFinal[index] = seen.insert(key).inserted
      }
    }
    for index in batch.indices { batch[index].finish(results[index], isFinal: isFinal[index]) }
    settle(batch)
  }

  /// Lets everybody know how their records ended. Each has its result already: a reader that still
  /// finds one in the queue sees how it ended.
  private func settle(_ batch: [WriteRequest]) {
    queue.release(batch)
    for record in batch {
      record.waiter.withLock { $0.event?.set() }
      record.announce()
    }
  }

  func slotIndex(_ hash: UInt64) -> Int { Int(hash & UInt64(SharedTableLayout.stampCount - 1)) }

  // MARK: A transaction of one's own

  /// Runs `body` alone among this process's writers, after everything queued before.
  func runExclusively<R: Sendable>(
    _ body: @escaping @Sendable (StoreCore) throws -> R
  ) throws -> R {
    let box = ResultBox<R>()
    try submit(
      WriteRequest(
        .exclusive { core in
          box.value.withLock { $0 = Result { try body(core) } }
        }))
    guard let result = box.value.withLock({ $0 }) else {
      throw StoreError(.system, during: "write", "The transaction was not run.")
    }
    do {
      return try result.get()
    } catch let error as SystemError {
      throw StoreError(error, during: "write", path: directory.path)
    } catch let error as LMDBError {
      throw StoreError(error, during: "write", path: directory.path)
    }
  }

  final class ResultBox<R: Sendable>: Sendable {
    let value = Mutex<Result<R, any Error>?>(nil)
  }
}
