// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The commit leader's work on the queue: one transaction, and one result for each request.
extension StoreCore {
  // MARK: One batch

  /// Commits one batch of the queue.
  ///
  /// - Returns: The error if the leader's time limit passed before any request was taken from the
  ///   queue.
  func commitQueued() -> StoreError? {
    var batch: [WriteRequest] = []
    do {
      let done = try withGeneration { generation in
        try transact(in: generation) { transaction in
          // Requests are taken only once the writer lock is held. So later requests join the batch,
          // and a request that waits for a stopped writer can still be withdrawn.
          if batch.isEmpty { batch = queue.state.withLock { WriteQueue.takeBatch(&$0) } }
          return try apply(batch, to: &transaction)
        }
      }
      complete(batch, done.result)
    } catch let error as StoreError where error.code == .writerStalled && batch.isEmpty {
      return error
    } catch {
      if batch.isEmpty { batch = queue.state.withLock { WriteQueue.takeBatch(&$0) } }
      // The outcome is unknown: a retry could repeat a write that is already visible.
      let isUnknown = StoreError(wrapping: error, during: "write").code == .outcomeUnknown
      if batch.count == 1 || isUnknown {
        for record in batch { commitAlone(record, after: error) }
      } else {
        for record in batch { commitAlone(record, after: nil) }
      }
    }
    return nil
  }

  /// Commits one request after a failed group commit, or on a full disk.
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
        complete([record], done.result)
        return
      } catch {
        failure = error
      }
    }
    let error = StoreError(
      wrapping: failure ?? EngineSignal.generationChanged, during: "write", path: directory.path)
    record.finish(.failed(error))
    notifyCallers([record])
    if record.isWriteBehind { report(error) }
  }

  private static let diskRounds = 8

  /// Evicts the least recently used entries, so that a write can reuse their pages without growing
  /// the file.
  ///
  /// A transaction copies each page that it changes, and the pages it frees are available to the
  /// next transaction but one. So without any free space, only a transaction that touches few pages
  /// succeeds: it evicts neighbours. Two further transactions that change almost nothing make the
  /// freed pages available, unless a snapshot of a killed process still pins them.
  private func evictForDiskSpace(_ round: Int) {
    _ = try? withGeneration { try $0.environment.clearDeadReaders() }
    func evict(_ body: @escaping (inout StoreTransaction) throws -> Void) -> Bool {
      (try? withGeneration { try transact(in: $0, body) }) != nil
    }
    if round > 1 || !evict({ try $0.evict(share: 256) }) {
      _ = [32, 8, 1].first { count in evict { try $0.evictNeighbours(count) } }
    }
    for _ in 0..<2 { try? commitNoOp() }
  }

  private func isStorageFull(_ error: (any Error)?) -> Bool {
    guard let error else { return false }
    return StoreError(wrapping: error, during: "write").code == .storageFull
  }

  /// Applies the requests in order (W2). The rejection of one request is its result; it does not
  /// fail the transaction.
  private func apply(
    _ batch: [WriteRequest], to transaction: inout StoreTransaction
  ) throws -> BatchResult {
    var results: [WriteRequest.Result] = []
    results.reserveCapacity(batch.count)
    let generation = transaction.generation
    let commitVersion = transaction.commitVersion
    for record in batch {
      let (space, key) = (record.space, record.key)
      record.begin(in: generation, commitVersion: commitVersion)
      try fault(throwing: .betweenPuts)
      var changed = true
      switch record.kind {
      case .put(let content):
        let hash = space!.hash(of: key, in: generation)
        // The budget may have shrunk since the request was queued. The rest of the batch is
        // unaffected.
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
        if !isTooLarge, permit.allowsFill(hash: hash, in: transaction),
          try transaction.allowsFill(content, in: space!, since: permit.begun)
        {
          try transaction.put(content, forKey: key, hash: hash, in: space!)
          generation.count(.sets)
        } else {
          generation.count(.rejectedFills)
          changed = false
        }
      case .removeDamaged(let written):
        let hash = space!.hash(of: key, in: generation)
        changed =
          try transaction.removeItems(hash: hash, .damaged) {
            $0.header.commitVersion == written
          } > 0
      case .alter(_, let body):
        changed = try body(&transaction)
        if changed { generation.count(.sets) }
      case .commitNoOp: transaction.force()
      case .barrier, .exclusive: break
      }
      results.append(.done(commitVersion: commitVersion, changed: changed))
    }
    return BatchResult(results: results, evicted: evicted(from: batch, in: transaction))
  }

  /// The results of a batch, and the requests whose entries the transaction evicted again.
  private struct BatchResult {
    let results: [WriteRequest.Result]
    let evicted: Set<Int>
  }

  /// Returns the requests whose keys may have no entry after the transaction, because it evicted the
  /// entries that it had stored: no memory tier may contain their values.
  private func evicted(
    from batch: [WriteRequest], in transaction: borrowing StoreTransaction
  ) -> Set<Int> {
    var positions: Set<Int> = []
    if transaction.evictedOwn.isEmpty { return positions }
    for (position, record) in batch.enumerated() {
      guard let space = record.space else { continue }
      if transaction.evictedOwn.contains(space.hash(of: record.key, in: transaction.generation)) {
        positions.insert(position)
      }
    }
    return positions
  }

  /// Stores the result of each request of the batch (W5). Of several requests for one key, only the
  /// last is inserted into memory tiers.
  private func complete(_ batch: [WriteRequest], _ result: BatchResult) {
    let results = result.results
    if batch.count == 1 {
      batch[0].finish(results[0], isFinal: result.evicted.isEmpty)
      notifyCallers(batch)
      return
    }
    var isFinal = [Bool](repeating: true, count: batch.count)
    if !Mutant.combinerFilesFirst.isActive {
      var seen: Set<WriteQueue.PendingKey> = []
      for index in batch.indices.reversed() {
        guard let space = batch[index].space else { continue }
        switch (batch[index].kind, results[index]) {
        case (.fill, .done(_, false)), (.alter, .done(_, false)): continue
        default: break
        }
        let key = WriteQueue.PendingKey(space: space.name, key: batch[index].key)
        isFinal[index] = seen.insert(key).inserted
      }
    }
    for index in batch.indices {
      batch[index].finish(
        results[index], isFinal: isFinal[index] && !result.evicted.contains(index))
    }
    notifyCallers(batch)
  }

  /// Removes the requests from the queue and notifies their callers. Each request has its result
  /// already, so a reader that still finds one in the queue reads that result.
  private func notifyCallers(_ batch: [WriteRequest]) {
    queue.release(batch)
    for record in batch {
      record.waiter.withLock { $0.event?.set() }
      record.announce()
    }
  }

  // MARK: Exclusive transactions

  /// Runs `body` as this process's only writer, after every request that was queued earlier.
  func runExclusively<R: Sendable>(
    _ body: @escaping @Sendable (StoreCore) throws -> R
  ) throws -> R {
    let box = ResultBox<R>()
    try submit(
      WriteRequest(
        .exclusive { core in
          box.set(Result { try body(core) })
        }))
    do {
      return try box.get()
    } catch let error as SystemError {
      throw StoreError(error, during: "write", path: directory.path)
    } catch let error as LMDBError {
      throw StoreError(error, during: "write", path: directory.path)
    }
  }

  /// The place for the result of a closure that another thread runs.
  package final class ResultBox<R: Sendable>: Sendable {
    let value = Mutex<Result<R, any Error>?>(nil)

    package init() {}

    package func set(_ result: Result<R, any Error>) { value.withLock { $0 = result } }

    /// Returns the result of the last run.
    package func get() throws -> R {
      guard let result = value.withLock({ $0 }) else { throw StoreError.closed("write") }
      return try result.get()
    }
  }
}
