// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

/// What is known of one worker, from what it said.
struct WorkerStatistics: Sendable {
  var pid: Int32 = 0
  /// Closures it ran, and those whose result it saw committed.
  var begun = 0
  var computed = 0
  /// Results it got from others.
  var found = 0
  var failed = 0
  /// The file it computes at this moment.
  var inFlight: Int?
  var isReady = false
  /// Its own index of everything, when it is complete.
  var digest: UInt64?
  /// It was killed by the demo.
  var isVictim = false
  /// Its output has ended.
  var isGone = false
}

/// What is known of one pass, from what its workers said.
struct PassStatistics: Sendable {
  var workers: [WorkerStatistics]
  /// How often each file was begun.
  var begun: [UInt8]
  /// Which files somebody has finished.
  var isDone: [Bool]
  var done = 0
  /// When the last worker said anything.
  var lastWord = ContinuousClock.now

  var computed: Int { workers.reduce(0) { $0 + $1.computed } }
  var found: Int { workers.reduce(0) { $0 + $1.found } }
  var begunInAll: Int { workers.reduce(0) { $0 + $1.begun } }
  /// Files that were computed a second time.
  var again: Int { begun.count { $0 > 1 } }
  var victim: WorkerStatistics? { workers.first(where: \.isVictim) }
  var isOver: Bool { workers.allSatisfy(\.isGone) }
}

/// The workers of one pass: processes of their own, started and heard by this one.
final class DemoWorkers: Sendable {
  private let processes: [Process]
  private let inputs: [FileHandle]
  private let state: Mutex<PassStatistics>
  private let killsAt: Int?

  /// Starts the workers and returns when all of them are ready to go.
  ///
  /// - Parameter killsAt: When so many files are done, whoever begins the next one is killed.
  init(
    count: Int, store: String, files: DemoFileList, seed: UInt64, killsAt: Int?
  ) throws {
    let executable = Bundle.main.executablePath ?? CommandLine.arguments[0]
    var processes: [Process] = []
    var inputs: [FileHandle] = []
    var outputs: [FileHandle] = []
    for worker in 0..<count {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: executable)
      process.arguments = [
        "demo-worker", "--store", store, "--files", files.path, "--seed",
        String(seed &+ UInt64(worker) &* 7919),
      ]
      let (input, output) = (Pipe(), Pipe())
      process.standardInput = input
      process.standardOutput = output
      try process.run()
      processes.append(process)
      inputs.append(input.fileHandleForWriting)
      outputs.append(output.fileHandleForReading)
    }
    self.processes = processes
    self.inputs = inputs
    self.killsAt = killsAt
    state = Mutex(
      PassStatistics(
        workers: processes.map { WorkerStatistics(pid: $0.processIdentifier) },
        begun: Array(repeating: 0, count: files.count),
        isDone: Array(repeating: false, count: files.count)))
    for (worker, output) in outputs.enumerated() {
      Thread.detachNewThread { [self] in listen(to: output, of: worker) }
    }
  }

  /// What is known by now.
  var tally: PassStatistics { state.withLock { $0 } }

  /// Waits until every worker has said it is ready.
  func waitUntilReady() throws {
    while true {
      let tally = tally
      if tally.workers.allSatisfy(\.isReady) { return }
      if tally.workers.contains(where: \.isGone) {
        throw ToolError("demo", "A worker ended before it began; its own words are above.")
      }
      try checkPatience(tally)
      Thread.sleep(forTimeInterval: 0.005)
    }
  }

  /// Lets all workers go, and returns when their outputs have ended.
  func run(_ progress: (PassStatistics) -> Void) throws -> PassStatistics {
    let go = Data("go\n".utf8)
    for input in inputs { try input.write(contentsOf: go) }
    while true {
      let tally = tally
      progress(tally)
      if tally.isOver { break }
      try checkPatience(tally)
      Thread.sleep(forTimeInterval: 0.05)
    }
    for process in processes { process.waitUntilExit() }
    return tally
  }

  /// Ends every worker, for a demo that is given up.
  func abandon() {
    for process in processes where process.isRunning { kill(process.processIdentifier, SIGKILL) }
  }

  /// How worker `index` ended, in words; `nil`: with success.
  func failure(of index: Int) -> String? {
    let process = processes[index]
    if process.terminationReason == .uncaughtSignal {
      return "ended by signal \(process.terminationStatus)"
    }
    return process.terminationStatus == 0 ? nil : "exit code \(process.terminationStatus)"
  }

  private func checkPatience(_ tally: PassStatistics) throws {
    guard ContinuousClock.now - tally.lastWord > .seconds(60) else { return }
    abandon()
    throw ToolError("demo", "No worker has said anything for a minute; the demo was given up.")
  }

  private func listen(to output: FileHandle, of worker: Int) {
    var rest: [UInt8] = []
    while true {
      let data = output.availableData
      if data.isEmpty { break }
      rest.append(contentsOf: data)
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        hear(String(decoding: rest[..<end], as: UTF8.self), from: worker)
        rest.removeSubrange(...end)
      }
    }
    state.withLock { $0.workers[worker].isGone = true }
  }

  private func hear(_ line: String, from index: Int) {
    let words = line.split(separator: " ")
    guard let verb = words.first else { return }
    let number = words.count > 1 ? Int(words[1]) : nil
    state.withLock { state in
      state.lastWord = .now
      switch (verb, number) {
      case ("ready", _): state.workers[index].isReady = true
      case ("begin", let file?) where state.begun.indices.contains(file):
        state.workers[index].begun += 1
        state.workers[index].inFlight = file
        state.begun[file] += 1
        if let killsAt, state.done >= killsAt, state.victim == nil {
          // Here and now, in the middle of its work.
          kill(state.workers[index].pid, SIGKILL)
          state.workers[index].isVictim = true
        }
      case ("end", let file?) where state.isDone.indices.contains(file):
        state.workers[index].computed += 1
        state.workers[index].inFlight = nil
        if !state.isDone[file] { state.done += 1 }
        state.isDone[file] = true
      case ("found", let count?): state.workers[index].found = count
      case ("failed", _):
        state.workers[index].failed += 1
        state.workers[index].inFlight = nil
      case ("done", _) where words.count == 3: state.workers[index].digest = UInt64(words[1])
      default: Console.printError("larder: a worker said \"\(line)\"")
      }
    }
  }
}

/// The files of a demo, written down for its workers.
struct DemoFileList {
  let path: String
  let count: Int
}
