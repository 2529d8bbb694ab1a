// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
import Larder

/// Works until the process receives SIGTERM. A job that it has claimed then returns to the queue.
func workUntilTerminated(_ jobs: JobStore) async throws {
  let work = Task { try await workForever(jobs) }
  signal(SIGTERM, SIG_IGN)
  let terminated = DispatchSource.makeSignalSource(signal: SIGTERM)
  terminated.setEventHandler { work.cancel() }
  terminated.resume()
  do {
    try await work.value
  } catch is CancellationError {
    // It was terminated while it waited.
  }
  terminated.cancel()
  jobs.store.close()
}

private func workForever(_ jobs: JobStore) async throws {
  while !Task.isCancelled {
    // The rate first: no lease begins while the worker waits for its permission.
    try await jobs.limiter.acquire(timeout: .seconds(3600))
    // A process that dies loses its claim at once. The lease is for work that hangs.
    guard let claim = try await jobs.queue.claim(lease: .seconds(60), timeout: .seconds(3600))
    else { continue }
    do {
      try await perform(claim.element, attempt: claim.attempt, jobs)
      try await complete(claim, jobs)
    } catch is CancellationError {
      // The job was not tried, so this is no attempt.
      try await claim.release(countsAttempt: false)
    } catch {
      // Each attempt begins later after the last one. After three, the queue moves the job to `failed`.
      try await claim.release(after: .milliseconds(100 * claim.attempt))
    }
  }
}

private func perform(_ job: Job, attempt: Int, _ jobs: JobStore) async throws {
  try await jobs.starts.update(forKey: job.number) { ($0 ?? []) + [getpid()] }
  switch job.kind {
  case .good: try await Task.sleep(for: .milliseconds(20))
  case .long: try await Task.sleep(for: .seconds(2))
  case .flaky where attempt > 1: break
  case .flaky, .impossible: throw JobFailed(number: job.number)
  }
}

/// Stores the result and removes the job from the queue: both, or neither if the claim has ended. So
/// each result is stored exactly once, however often a job is started.
private func complete(_ claim: SharedDeque<Job>.Claim, _ jobs: JobStore) async throws {
  let outcomes = jobs.outcomes
  try await jobs.store.write { transaction in
    guard try transaction.complete(claim) else { return }
    let number = claim.element.number
    let earlier = try transaction.value(forKey: number, in: outcomes)?.completions ?? 0
    try transaction.setValue(
      Outcome(attempt: claim.attempt, worker: getpid(), completions: earlier + 1),
      forKey: number, in: outcomes)
  }
}

struct JobFailed: Error {
  let number: Int
}
