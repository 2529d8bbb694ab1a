// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// One run of producer and workers: it starts them, kills a worker in the middle of a job, waits until the
/// queue is empty, and stops the others.
struct Rehearsal {
  let path: String
  let count: Int

  func run() async throws -> Bool {
    let jobs = try JobStore(at: path)
    defer { jobs.store.close() }
    let began = ContinuousClock.now
    let producer = try start(["produce", path, "\(count)"])
    let workers = try (1...4).map { _ in try start(["work", path]) }
    print("process \(producer.processIdentifier) pushes \(count) jobs; workers:", terminator: "")
    for worker in workers { print(" \(worker.processIdentifier)", terminator: "") }
    print()

    let victim = try await killWorker(in: count / 2, jobs)
    producer.waitUntilExit()
    try await waitUntilEmpty(jobs.queue)
    let duration = ContinuousClock.now - began
    for worker in workers { worker.terminate() }
    for worker in workers { worker.waitUntilExit() }

    var report = try Report(jobs, count: count, victim: victim, duration: duration)
    report.check(producer.terminationStatus == 0, "the producer exits with 0")
    for worker in workers where worker.processIdentifier != victim {
      report.check(
        worker.terminationReason == .exit && worker.terminationStatus == 0,
        "worker \(worker.processIdentifier) exits with 0 after SIGTERM")
    }
    report.print()
    return report.isCorrect
  }

  /// Starts this program again.
  private func start(_ arguments: [String]) throws -> Process {
    let process = Process()
    process.executableURL = Bundle.main.executableURL
    process.arguments = arguments
    try process.run()
    return process
  }

  /// Kills the first worker that begins a job, and returns its pid.
  private func killWorker(in number: Int, _ jobs: JobStore) async throws -> Int32? {
    // The store wakes this process when a worker writes the entry.
    for try await pids in jobs.starts.values(forKey: number) {
      guard let victim = pids?.first else { continue }
      kill(victim, SIGKILL)
      return victim
    }
    return nil
  }

  private func waitUntilEmpty(_ queue: SharedDeque<Job>) async throws {
    while true {
      let status = try queue.status()
      if status.waiting + status.claimed == 0 { return }
      try await Task.sleep(for: .milliseconds(50))
    }
  }
}
