// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Synchronization

/// The counters of one worker, from its output.
struct WorkerResult: Codable, Sendable {
  var pid: Int32
  /// Closures that ran, and those that finished.
  var begun = 0
  var computed = 0
  /// Results of other processes.
  var shared = 0
  /// The document it computes.
  var inFlight: Int?
  /// The checksum of its complete index.
  var digest: UInt64?
  /// Whether the demo killed it.
  var killed = false
  /// The exit status, if it was not success.
  var failure: String?
}

/// One run of the job: worker processes that each need the index of all documents.
struct DemoPass: Sendable {
  let workers: [WorkerResult]
  /// The number of processes that began each document.
  let begun: [Int]
  let seconds: Double

  var begunInAll: Int { begun.reduce(0, +) }
  var shared: Int { workers.reduce(0) { $0 + $1.shared } }
  /// Documents that were begun more than once.
  var again: Int { begun.count { $0 > 1 } }
  var victim: WorkerResult? { workers.first(where: \.killed) }
  /// Whether all workers except the killed one ended with success.
  var isComplete: Bool { workers.allSatisfy { $0.killed || $0.failure == nil } }

  /// The counters, shared by the threads that read the outputs.
  private final class Progress: Sendable {
    struct State {
      var workers: [WorkerResult]
      var begun: [Int]
      var done: Int = 0
    }
    let state: Mutex<State>

    init(_ workers: [WorkerResult], documents: Int) {
      state = Mutex(State(workers: workers, begun: Array(repeating: 0, count: documents)))
    }
  }

  /// Runs the job and returns when all workers have exited.
  ///
  /// - Parameters:
  ///   - workers: The number of processes.
  ///   - arguments: The arguments of each, without the seed.
  ///   - seed: The seed of the first worker's order; the others' follow from it.
  ///   - documents: The number of documents.
  ///   - killsAt: When this many documents are indexed, the worker that begins the next one is
  ///     killed.
  /// - Throws: ``ChildProcessError`` if a worker does not start, or prints nothing for a minute.
  init(
    workers: Int, arguments: [String], seed: UInt64, documents: Int, killsAt: Int?
  ) throws {
    let children = try (0..<workers).map { worker in
      try ChildProcess(
        try TestExecutable("larder-demo").path,
        arguments + ["--seed", String(seed &+ UInt64(worker) &* 7919)])
    }
    for child in children { try child.expect("ready") }
    let progress = Progress(
      children.map { WorkerResult(pid: $0.processIdentifier) }, documents: documents)
    let start = ContinuousClock.now
    for child in children { try child.send("go") }
    let readers = children.enumerated().map { (index, child) in
      JoinableThread { Self.follow(child, index, progress, killsAt) }
    }
    let statuses = try readers.map { $0.join() }.map { try $0.get() }
    seconds = start.duration(to: .now) / .seconds(1)
    (self.workers, begun) = progress.state.withLock { state in
      for (index, status) in statuses.enumerated() where !status.isSuccess {
        state.workers[index].failure = "\(status)"
      }
      return (state.workers, state.begun)
    }
  }

  /// Reads a worker's output to its end.
  private static func follow(
    _ child: ChildProcess, _ index: Int, _ progress: Progress, _ killsAt: Int?
  ) -> Result<ChildProcess.ExitStatus, ChildProcessError> {
    do throws(ChildProcessError) {
      while true {
        note(try child.nextLine(deadline: .seconds(60)), of: index, child, progress, killsAt)
      }
    } catch {
      guard error.code == .endOfOutput else { return .failure(error) }
    }
    return Result { () throws(ChildProcessError) in try child.wait() }
  }

  private static func note(
    _ line: String, of index: Int, _ child: ChildProcess, _ progress: Progress, _ killsAt: Int?
  ) {
    let words = line.split(separator: " ")
    let number = words.count > 1 ? Int(words[1]) : nil
    progress.state.withLock { state in
      switch (words.first, number) {
      case ("begin", let document?) where state.begun.indices.contains(document):
        state.workers[index].begun += 1
        state.workers[index].inFlight = document
        state.begun[document] += 1
        if let killsAt, state.done >= killsAt, !state.workers.contains(where: \.killed) {
          // In the middle of its work.
          child.kill()
          state.workers[index].killed = true
        }
      case ("end", _):
        state.workers[index].computed += 1
        state.workers[index].inFlight = nil
        state.done += 1
      case ("failed", _): state.workers[index].inFlight = nil
      case ("found", _): state.workers[index].shared += 1
      case ("done", _): state.workers[index].digest = words.last.flatMap { UInt64($0) }
      default: break
      }
    }
  }
}
