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
  /// - Returns: The error if the leader's time limit, or that of a switch to new files, passed before any
  ///   request was taken from the queue: the others continue to wait.
  func commitQueued() -> StoreError? {
    var taken: [WriteRequest]?
    do {
      if let done = try commitBatch(&taken) { complete(taken!, done) }
    } catch let error as StoreError
      where taken == nil && (error.code == .writerStalled || error.code == .openTimeout)
    {
      return error
    } catch {
      let batch = taken ?? queue.state.withLock { WriteQueue.takeBatch(&$0) }
      // If the outcome is unknown, a retry could repeat a write that is already visible.
      let isUnknown = StoreError(wrapping: error, during: "write").code == .outcomeUnknown
      let isRepeated = batch.count > 1 && !isUnknown
      for record in batch { commitAlone(record, after: isRepeated ? nil : error) }
    }
    return nil
  }

  /// - Parameter batch: Receives the requests that the transaction takes from the queue.
  /// - Returns: `nil` if the only request was executed by another process.
  private func commitBatch(_ batch: inout [WriteRequest]?) throws -> BatchResult? {
    var hasOffers = false
    func commit(withOffers: Bool) throws -> BatchResult? {
      try withGeneration { generation in
        let offering = batch == nil ? takeOffering(in: generation) : nil
        defer { if let offering { requeue(offering) } }
        do {
          return try transact(in: generation, offering: offering) { transaction in
            if let offering {
              if offering.isClaimed { try requireUnexecuted(in: generation) }
              requeue(offering)
            }
            // Requests are taken only once the writer lock is held. So later requests join the batch,
            // and a request that waits for a stopped writer can still be withdrawn.
            let requests = batch ?? queue.state.withLock { WriteQueue.takeBatch(&$0) }
            batch = requests
            monitors?.note(requests)
            limitRoom(of: &transaction)
            // Those for the counter of an own increment are one change with it. Others are claimed as late as
            // possible: their owners wait for the whole batch.
            if withOffers, requests.contains(where: \.isIncrement) {
              hasOffers = transaction.claimOffers()
            }
            let results = try apply(requests, to: &transaction)
            if withOffers {
              if generation.waitsForDisk { awaitOffers(in: generation) }
              // Some came in the meantime.
              if transaction.claimOffers() { hasOffers = true }
              if generation.waitsForDisk { generation.table.combined = transaction.offers.count }
            }
            if hasOffers { try transaction.executeOffers() }
            return BatchResult(results, of: requests, in: transaction)
          }.result
        } catch {
          guard let offering, batch == nil else { throw error }
          switch explained(error, after: offering, in: generation) {
          case let done as OfferExecuted: try complete(offering, done, in: generation)
          case let error as StoreError where offering.isClaimed && error.code == .outcomeUnknown:
            finish(offering, .failed(error))
          case let error: throw error
          }
          return nil
        }
      }
    }
    do { return try commit(withOffers: true) } catch {
      // The error may be that of another process's write.
      guard hasOffers, StoreError(wrapping: error, during: "write").code != .outcomeUnknown else {
        throw error
      }
      return try commit(withOffers: false)
    }
  }

  /// Commits one request after a failed group commit, or on a full disk.
  private func commitAlone(_ record: WriteRequest, after first: (any Error)?) {
    do {
      let done = try makingDiskRoom(after: first) { attempt in
        try withGeneration { generation in
          try transact(in: generation) { transaction in
            monitors?.note([record])
            limitRoom(of: &transaction, attempt)
            return BatchResult(
              try apply([record], to: &transaction), of: [record], in: transaction)
          }
        }
      }
      complete([record], done.result)
    } catch {
      let error = StoreError(wrapping: error, during: "write", path: directory.path)
      record.finish(.failed(error))
      notifyCallers([record])
      if record.isWriteBehind { report(error) }
    }
  }

  /// Applies the requests in order (W2). The rejection of one request is its result; it does not
  /// fail the transaction.
  private func apply(
    _ batch: [WriteRequest], to transaction: inout StoreTransaction
  ) throws -> [WriteRequest.Result] {
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
        changed = try fill(content, permit, record, &transaction)
        generation.count(changed ? .sets : .rejectedFills)
      case .removeDamaged(let written):
        let hash = space!.hash(of: key, in: generation)
        changed =
          try transaction.removeItems(hash: hash, .damaged) {
            $0.header.commitVersion == written
          } > 0
      case .alter(_, let body):
        changed = try body(&transaction)
        if changed { generation.count(.sets) }
      case .increment(let increment, let box):
        let outcome = try transaction.execute(increment, forKey: key, in: space!)
        box.set(outcome)
        if case .success(.stored) = outcome { generation.count(.sets) } else { changed = false }
      case .commitNoOp: transaction.force()
      case .barrier, .exclusive: break
      }
      results.append(.done(commitVersion: commitVersion, changed: changed))
    }
    return results
  }

  private func fill(
    _ content: EntryContent, _ permit: FillToken, _ record: WriteRequest,
    _ transaction: inout StoreTransaction
  ) throws -> Bool {
    try fault(throwing: .leaseBeforeFill)
    let hash = record.space!.hash(of: record.key, in: transaction.generation)
    guard transaction.refusal(of: content, for: record.key) == nil,
      permit.allowsFill(hash: hash, in: transaction),
      try transaction.allowsFill(content, in: record.space!, since: permit.begun)
    else { return false }
    try transaction.put(content, forKey: record.key, hash: hash, in: record.space!)
    return true
  }

  /// The results of a batch, and the requests whose keys may have another entry or none after the
  /// transaction, because it evicted the entries that it had stored, or changed them for another process:
  /// no memory tier may contain their values.
  private struct BatchResult {
    let results: [WriteRequest.Result]
    private(set) var replaced: Set<Int> = []

    init(
      _ results: [WriteRequest.Result], of batch: [WriteRequest],
      in transaction: borrowing StoreTransaction
    ) {
      self.results = results
      if transaction.replacedOwn.isEmpty { return }
      for (position, record) in batch.enumerated() {
        guard let hash = record.space?.hash(of: record.key, in: transaction.generation) else {
          continue
        }
        if transaction.replacedOwn.contains(hash) { replaced.insert(position) }
      }
    }
  }

  /// Stores the result of each request of the batch (W5). Of several requests for one key, only the
  /// last is inserted into memory tiers.
  private func complete(_ batch: [WriteRequest], _ result: BatchResult) {
    let results = result.results
    if batch.count == 1 {
      batch[0].finish(results[0], isFinal: result.replaced.isEmpty)
      notifyCallers(batch)
      return
    }
    var isFinal = [Bool](repeating: true, count: batch.count)
    if !Mutant.combinerFilesFirst.isActive {
      var seen: Set<WriteQueue.PendingKey> = []
      for index in batch.indices.reversed() {
        guard let space = batch[index].space else { continue }
        switch (batch[index].kind, results[index]) {
        case (.fill, .done(_, false)), (.alter, .done(_, false)), (.increment, .done(_, false)):
          continue
        default: break
        }
        let key = WriteQueue.PendingKey(space: space.name, key: batch[index].key)
        isFinal[index] = seen.insert(key).inserted
      }
    }
    for index in batch.indices {
      batch[index].finish(
        results[index], isFinal: isFinal[index] && !result.replaced.contains(index))
    }
    notifyCallers(batch)
  }

  /// Removes the requests from the queue and notifies their callers. Each request has its result
  /// already, so a reader that still finds one in the queue reads that result.
  func notifyCallers(_ batch: [WriteRequest]) {
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
