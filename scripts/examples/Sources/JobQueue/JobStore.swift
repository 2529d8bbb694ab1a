// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// A job. In a real program: a mail to send, an image to scale.
struct Job: Codable, Sendable {
  let number: Int
  let kind: Kind

  enum Kind: String, Codable {
    case good
    /// It fails in its first attempt.
    case flaky
    /// It fails in each attempt.
    case impossible
    /// It takes two seconds.
    case long
  }
}

/// The result of a job, which is stored in the transaction that removes the job from the queue.
struct Outcome: Codable, Sendable {
  /// The number of the attempt that succeeded.
  let attempt: Int
  let worker: Int32
  /// The number of times that the job was completed.
  let completions: Int
}

/// The store that producer and workers share, and what is in it.
struct JobStore: Sendable {
  let store: SharedStore
  let queue: SharedDeque<Job>
  /// The results, by job.
  let outcomes: PersistentCache<Int, Outcome>
  /// The processes that began a job, in order.
  let starts: PersistentCache<Int, [Int32]>
  /// At most 50 attempts a second, of all workers together.
  let limiter: RateLimiter

  static let rate = 50
  static let burst = 10

  init(at path: String) throws {
    // Durable: a job that was pushed survives a crash of the machine too.
    store = try SharedStore(at: path, .init(durability: .durable))
    queue = SharedDeque(storage: store, name: "jobs", maximumAttempts: 3)
    outcomes = PersistentCache(storage: store, namespace: "outcomes")
    starts = PersistentCache(storage: store, namespace: "starts")
    limiter = store.rateLimiter(
      "jobs", .tokenBucket(rate: Double(Self.rate), burst: Self.burst))
  }
}

/// Pushes jobs in batches of ten. Each batch is one transaction.
func produce(into jobs: JobStore, count: Int) async throws {
  for start in stride(from: 1, through: count, by: 10) {
    let batch = (start...min(start + 9, count)).map { number in
      let kind: Job.Kind =
        switch number {
        case 13: .impossible
        case count / 2: .long
        case _ where number % 10 == 7: .flaky
        default: .good
        }
      return Job(number: number, kind: kind)
    }
    try await jobs.queue.push(contentsOf: batch)
  }
  jobs.store.close()
}
