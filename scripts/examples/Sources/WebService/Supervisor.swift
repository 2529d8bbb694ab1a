// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import ServiceLifecycle

/// The parent of the workers. It starts them and replaces each that is killed; a worker that exits with
/// an error ends the service.
///
/// It does not open the store. Processes that share a store need no parent: systemd can start them too.
struct Supervisor: Service {
  let options: ServiceOptions

  func run() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<options.workers {
        group.addTask { try await keepRunning() }
      }
      say("http://127.0.0.1:\(options.port): \(options.workers) workers, store \(options.store)")
      try await group.waitForAll()
    }
    say("All workers have stopped.")
  }

  private func keepRunning() async throws {
    while !Task.isShuttingDownGracefully && !Task.isCancelled {
      let worker = try await runWorker()
      let (pid, status) = (worker.processIdentifier, worker.terminationStatus)
      switch worker.terminationReason {
      case .uncaughtSignal:
        say("worker \(pid): killed by signal \(status)")
        // Not at once, for the case that it crashes when it starts.
        try await Task.sleep(for: .milliseconds(500))
      case .exit where status == 0: return say("worker \(pid): stopped")
      default: throw WorkerFailed(pid: pid, status: status)
      }
    }
  }

  /// Starts a worker and waits for its end. A shutdown of the service is passed to it as SIGTERM.
  private func runWorker() async throws -> Process {
    let worker = Process()
    worker.executableURL = Bundle.main.executableURL
    worker.arguments = options.workerArguments
    let (ends, end) = AsyncStream.makeStream(of: Void.self)
    worker.terminationHandler = { _ in end.finish() }
    try worker.run()
    say("worker \(worker.processIdentifier): started")
    // A task that is not cancelled with this one: the end of the worker is waited for in any case.
    let isOver = Task { for await _ in ends {} }
    await withTaskCancellationOrGracefulShutdownHandler {
      await isOver.value
    } onCancelOrGracefulShutdown: {
      worker.terminate()
    }
    return worker
  }
}

struct WorkerFailed: Error, CustomStringConvertible {
  let pid: Int32
  let status: Int32
  var description: String { "Worker \(pid) exited with status \(status); its error is above." }
}
