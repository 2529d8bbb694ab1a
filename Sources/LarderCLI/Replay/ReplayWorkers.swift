// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderEngine
import LarderMemo

// A worker reads the numbers of chunks from its standard input, a pipe that all workers share: each
// chunk goes to the worker that is free first, in the order of the trace. So the accesses interleave
// as those of processes that serve one stream of requests. Its standard output is
//
//   !          the store is open
//   .          16 chunks were replayed
//   a newline, the fields of `AccessTally` as decimal numbers with spaces, a newline: the end

/// The worker processes of a replay, as the process sees them that started them.
struct ReplayWorkers {
  private let helpers: [HelperProcess]
  private let pipe: TaskPipe
  private let chunks: Int
  private let accesses: Int

  static let opened = UInt8(ascii: "!")
  static let advanced = UInt8(ascii: ".")
  static let chunksPerMark = 16
  /// The chunks after which a worker shows no more progress, so that its output fits into a pipe.
  static let lastMark = chunksPerMark << 15

  /// Starts the workers and waits until each has opened the store.
  init(_ trace: Trace, count: Int, store: String, directory: String) throws {
    accesses = trace.count
    chunks = AccessReplay.chunkCount(trace)
    let file = directory + "/accesses"
    do { try Data(trace.bytes).write(to: URL(fileURLWithPath: file)) } catch {
      throw ToolError("file", "Cannot write \(file): \(error.localizedDescription)")
    }
    do {
      pipe = try TaskPipe()
      var helpers: [HelperProcess] = []
      for _ in 0..<count {
        do {
          helpers.append(
            try HelperProcess(
              .own, [ReplayWorkerCommand.name, file, store], input: pipe.input))
        } catch {
          Self.end(helpers)
          throw error
        }
      }
      self.helpers = helpers
    } catch let error as HelperProcess.NotStarted {
      throw ToolError("worker", error.message)
    }
    for helper in helpers where helper.read().first != Self.opened {
      throw failure()
    }
  }

  /// Deals the accesses to the workers and returns their counts.
  func replay(title: String) throws -> [AccessTally] {
    do { try pipe.fill(UInt32(chunks)) } catch {
      Self.end(helpers)
      throw ToolError("worker", error.message)
    }
    var progress = TransferProgress(title, of: ("access", "accesses"))
    defer { progress.clear() }
    var outputs = [[UInt8]](repeating: [], count: helpers.count)
    // The workers end together, so the output of one of them shows the progress.
    for (index, helper) in helpers.enumerated() {
      var marks = 0
      while case let piece = helper.read(), !piece.isEmpty {
        marks += piece.count { $0 == Self.advanced }
        outputs[index] += piece.filter { $0 != Self.advanced }
        let done = marks * Self.chunksPerMark * AccessReplay.chunk * helpers.count
        progress.show(min(done, accesses / 64 * 64), share: Double(done) / Double(accesses))
      }
    }
    guard let tallies = try? outputs.map(Self.tally) else { throw failure() }
    for helper in helpers where helper.finish() != nil { throw failure() }
    return tallies
  }

  private static func tally(_ output: [UInt8]) throws -> AccessTally {
    let numbers = String(decoding: output, as: UTF8.self).split { $0 == "\n" || $0 == " " }
      .compactMap { Int($0) }
    guard numbers.count == 6 else { throw Exit.failure }
    return AccessTally(
      accesses: numbers[0], hits: numbers[1], bytes: numbers[2], hitBytes: numbers[3],
      oversized: numbers[4], nanoseconds: numbers[5])
  }

  /// Kills the workers and returns the error of the replay.
  private func failure() -> ToolError {
    Self.end(helpers)
    return ToolError(
      "worker",
      "A worker process ended before the end of the trace; its output is above. Replay again, or "
        + "with --processes 1.")
  }

  private static func end(_ helpers: [HelperProcess]) {
    for helper in helpers { helper.kill() }
    for helper in helpers { _ = helper.finish() }
  }
}

/// A worker process of `larder replay`: hidden, because only that command starts it.
struct ReplayWorkerCommand: ParsableCommand {
  static let name = "replay-worker"

  static let configuration = CommandConfiguration(
    commandName: name, abstract: "Replay a part of a trace for `larder replay`.",
    shouldDisplay: false)

  @Argument(help: "The file with the accesses.") var file: String
  @Argument(help: "The directory of the store.") var store: String

  func run() throws {
    try Console.reporting(json: false) {
      guard let bytes = FileManager.default.contents(atPath: file),
        let trace = Trace(bytes: Array(bytes))
      else { throw ToolError("file", "Cannot read the accesses in \(file).") }
      let store = try SharedStore(at: store)
      defer { store.close() }
      var replay = try AccessReplay(trace, in: store)
      Console.write([ReplayWorkers.opened])
      let clock = ContinuousClock()
      var start: ContinuousClock.Instant?
      var count = 0
      while let chunk = try next() {
        if start == nil { start = clock.now }
        try replay.replay(chunk: chunk)
        count += 1
        if count % ReplayWorkers.chunksPerMark == 0, count < ReplayWorkers.lastMark {
          Console.write([ReplayWorkers.advanced])
        }
      }
      let duration = start?.duration(to: clock.now) ?? .zero
      let tally = replay.tally
      Console.line(
        "\n\(tally.accesses) \(tally.hits) \(tally.bytes) \(tally.hitBytes) \(tally.oversized) "
          + "\(duration.nanoseconds)")
    }
  }

  private func next() throws -> Int? {
    TaskPipe.number(try FileHandle.standardInput.read(upToCount: TaskPipe.width) ?? Data())
  }
}
#endif
