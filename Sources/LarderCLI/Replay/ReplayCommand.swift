// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderEngine

/// `larder replay`: the hit ratio of a trace in a store.
struct ReplayCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Measure the hit ratio of access traces in a store.",
    discussion: """
      Each access of a TRACE is a get, and after a miss a set, in a new store in the temporary \
      directory, which is removed at the end. So the result is that of the library with this \
      policy and capacity, not that of a model.

      A trace has one access on each line: KEY, or KEY and SIZE in bytes. --format csv reads the \
      columns timestamp,key,size of libCacheSim, with or without a line of their names; --format \
      arc reads start, count, ignored and request: an access to each of count keys from start. A \
      first line with a comma selects csv. Lines that start with # are skipped. A trace may be \
      compressed by gzip; - is standard input.

      --compare replays the trace with each policy and adds two simulations: exact LRU, and the \
      eviction of the entry with the latest next access (Belady), which is optimal for a capacity \
      in entries. With --bytes both count an entry as the store does: key, value and header.

      With --processes, worker processes share the store. Each takes the next 64 accesses when it \
      has finished its last ones, so the order of accesses varies between runs, as that of the \
      hits does.

      EXIT STATUS
        0   every trace was replayed
        64  usage error
        70  a trace cannot be read or has an invalid line, or the store failed

      EXAMPLES
        larder replay access.trace                       a tenth of the keys fits
        larder replay access.trace.gz --entries 10000 --processes 4
        larder replay cdn.csv --bytes 64M,256M --compare --json
        larder replay P3.lis --format arc --compare --entries 4000,16000 --svg p3.svg
        awk '{ print $7, $10 }' access.log | larder replay - --bytes 100M
      """)

  @Argument(
    help: ArgumentHelp("A file with a trace, or - for standard input.", valueName: "trace"),
    completion: .file())
  var traces: [String] = []

  @Option(
    name: .long,
    help: ArgumentHelp("The number of processes that share the store.", valueName: "count"))
  var processes = 1

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The eviction policy, sampledLRU or adaptive. (default: adaptive)", valueName: "name"))
  var policy: EvictionPolicy?

  @Option(
    name: .long,
    help: ArgumentHelp(
      """
      The most entries of the store; several capacities are separated by commas. (default: a tenth \
      of the distinct keys)
      """, valueName: "count"),
    transform: CapacityList.entries)
  var entries: CapacityList?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The budget of the store: 500K, 64M or 1G; several are separated by commas.",
      valueName: "size"),
    transform: CapacityList.bytes)
  var bytes: CapacityList?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The format of the traces: text, csv or arc. (default: text or csv, by the first line)",
      valueName: "form"))
  var format: TraceFormat?

  @Flag(name: .long, help: "Compare all policies with exact LRU and the optimum.")
  var compare = false

  @Option(
    name: .long,
    help: ArgumentHelp(
      "Write a plot of the hit ratio over the capacity to this file.", valueName: "file"),
    completion: .file(extensions: ["svg"]))
  var svg: String?

  @OptionGroup var answer: AnswerArguments

  func validate() throws {
    guard !traces.isEmpty else {
      throw ValidationError("Missing trace: larder replay TRACE ... [options]")
    }
    guard traces.count(where: { $0 == "-" }) <= 1 else {
      throw ValidationError("Standard input (-) is named twice.")
    }
    guard (1...64).contains(processes) else {
      throw ValidationError("Invalid --processes \(processes): the range is 1 to 64.")
    }
    if entries != nil, bytes != nil {
      throw ValidationError("--entries and --bytes exclude each other.")
    }
    if compare, policy != nil {
      throw ValidationError("--compare and --policy exclude each other: it replays all policies.")
    }
    if svg != nil, traces.count > 1 {
      throw ValidationError("--svg plots one trace. Pass one.")
    }
  }

  func run() throws {
    try Console.reporting(json: answer.json) {
      let directory = try temporaryDirectory()
      let results: [TraceResult]
      do {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        results = try traces.map { path in
          let file = TraceFile(path, directory: directory)
          return try result(file.name, try file.read(format), directory)
        }
      }
      if let svg, let result = results.first {
        let output = try AtomicOutputFile(svg)
        do {
          try output.handle.write(contentsOf: Data(HitRatioPlot(result).text.utf8))
          try output.finish()
        } catch {
          output.discard()
          throw error
        }
      }
      // The plot may be standard output.
      if svg == "-" { return }
      if answer.json {
        Console.json(ReplayReport(results, isComparison: compare).json)
      } else {
        Console.write(ReplayReport(results, isComparison: compare).text)
      }
    }
  }

  private func temporaryDirectory() throws -> String {
    // Before the replay, which may take minutes.
    if let svg, svg != "-" {
      let parent = URL(fileURLWithPath: svg).deletingLastPathComponent().path
      guard FileManager.default.isWritableFile(atPath: parent) else {
        throw ToolError(
          "file", "Cannot create \(svg): \(parent) does not exist, or is not writable.")
      }
    }
    return try TraceReplay.temporaryDirectory()
  }

  private func result(_ name: String, _ trace: Trace, _ directory: String) throws -> TraceResult {
    let replay = TraceReplay(trace: trace, processes: processes, directory: directory)
    var result = TraceResult(name: name, trace: trace)
    result.isDefaultCapacity = entries == nil && bytes == nil
    let capacities =
      (entries ?? bytes)?.capacities ?? [.entries(max(1, trace.keyCount / 10))]
    for capacity in capacities {
      for policy in compare ? EvictionPolicy.all : [policy ?? .adaptive] {
        result.runs.append(
          try replay.run(policy, capacity, title: "\(policy), \(capacity.text)"))
      }
      guard compare else { continue }
      let simulation = PolicySimulation(trace, capacity)
      result.simulations.append((.leastRecentlyUsed, capacity, simulation.leastRecentlyUsed()))
      result.simulations.append((.latestNextUse, capacity, simulation.latestNextUse()))
    }
    return result
  }
}

/// A list of capacities on the command line.
struct CapacityList {
  let capacities: [Trace.Capacity]

  private init(_ text: String, _ capacity: (String) throws -> Trace.Capacity) throws {
    capacities = try text.split(separator: ",", omittingEmptySubsequences: false)
      .map { try capacity(String($0)) }
  }

  static func entries(_ text: String) throws -> CapacityList {
    try CapacityList(text) { word in
      guard let count = Int(word), (1...1 << 31).contains(count) else {
        throw ValidationError(
          "Invalid number of entries \"\(word)\": the range is 1 to 2147483648. Example: "
            + "1000,2000.")
      }
      return .entries(count)
    }
  }

  static func bytes(_ text: String) throws -> CapacityList {
    try CapacityList(text) { word in
      let size = try ByteSize(word).bytes
      guard size >= 4096 else {
        throw ValidationError("Invalid budget \"\(word)\": a store has at least 4,096 bytes.")
      }
      return .bytes(size)
    }
  }
}
#endif
