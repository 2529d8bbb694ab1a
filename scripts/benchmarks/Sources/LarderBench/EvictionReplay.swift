// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// The cells of `reference.csv`: the hit ratios of exact policies, simulated, for a trace and a
/// capacity in entries.
struct EvictionReference {
  struct Cell: Hashable {
    let trace: String
    let capacity: Int
    /// The hit ratio in percent, by the name of the policy.
    let percents: [String: Double]

    var name: String { "\(trace), \(capacity) entries" }
  }

  let directory: String
  let cells: [Cell]

  /// Reads the cells in a directory of traces; returns nil if there are none.
  ///
  /// - Parameter isQuick: Whether to keep only the middle capacity of each trace.
  init?(_ directory: String, isQuick: Bool) {
    guard
      let text = try? String(contentsOfFile: directory + "/reference.csv", encoding: .utf8)
    else { return nil }
    let table = text.split(separator: "\n").map { $0.split(separator: ",").map(String.init) }
    guard let names = table.first else { return nil }
    let all = table.dropFirst().map { row in
      Cell(
        trace: row[0], capacity: Int(row[1]) ?? 0,
        percents: Dictionary(
          zip(names.dropFirst(2), row.dropFirst(2)).map { ($0, Double($1) ?? 0) },
          uniquingKeysWith: { first, _ in first }))
    }
    self.directory = directory
    guard isQuick else {
      cells = all
      return
    }
    cells = Dictionary(grouping: all, by: \.trace).sorted { $0.key < $1.key }
      .map { $0.value[$0.value.count / 2] }
  }

  /// Returns the accesses of a trace: the numbers of its keys.
  func accesses(_ trace: String) throws -> [UInt32] {
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["gzip", "-dc", "\(directory)/\(trace).trc.gz"]
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw BenchFailure("gzip cannot unpack the trace \(trace) in \(directory).")
    }
    var keys: [UInt32] = []
    var (number, isKey, hasDigits) = (UInt32(0), true, false)
    for byte in data {
      switch byte {
      case 48...57 where isKey: (number, hasDigits) = (number &* 10 &+ UInt32(byte) - 48, true)
      case 10:
        if hasDigits { keys.append(number) }
        (number, isKey, hasDigits) = (0, true, false)
      default: isKey = false
      }
    }
    return keys
  }
}

/// The replay of accesses through a store: a get, and after a miss a set.
enum EvictionReplay {
  /// The processes of a replay.
  enum Processes: Hashable {
    case one
    /// Each replays the next chunk when the one before has finished its chunk: the order of the accesses
    /// is that of one process.
    case inTurns(Int)
    /// Each replays the next chunk when it has finished its own.
    case free(Int)
  }

  /// The accesses that one process replays in sequence.
  static let chunk = 64
  private static let value = [UInt8](repeating: 7, count: 16)

  /// Returns the hit ratio in percent.
  static func percent(
    _ keys: [UInt32], _ capacity: Int, _ policy: EvictionPolicy, _ processes: Processes,
    in directory: String
  ) throws -> Double {
    let path = directory + "/eviction"
    defer { Files.remove(path) }
    var options = StoreOptions(budget: .bytes(256 * capacity + 16 << 20))
    options.entryBudget = capacity
    options.evictionPolicy = policy
    let store = try SharedStore(at: path, options)
    defer { store.close() }
    let hits =
      switch processes {
      case .one: try replay(keys[...], store.namespace("trace"))
      case .inTurns(let count): try replay(keys, count, path, directory, isInTurns: true)
      case .free(let count): try replay(keys, count, path, directory, isInTurns: false)
      }
    guard try store.statistics().entries <= capacity else {
      throw BenchFailure("The store has more entries than its budget.")
    }
    return Double(hits) * 100 / Double(keys.count)
  }

  private static func replay(
    _ keys: ArraySlice<UInt32>, _ namespace: StoreNamespace
  ) throws -> Int {
    var hits = 0
    for key in keys {
      if try namespace.bytes(forKey: Int(key)) != nil {
        hits += 1
      } else {
        try namespace.setBytes(value, forKey: Int(key))
      }
    }
    return hits
  }

  // MARK: Several processes

  // The children read numbers of chunks: from one pipe, so that each takes the next chunk of the trace
  // when it has finished its last one, or in turns each from its own.

  private static func replay(
    _ keys: [UInt32], _ processes: Int, _ path: String, _ directory: String, isInTurns: Bool
  ) throws -> Int {
    let file = directory + "/accesses"
    try keys.withUnsafeBytes { try Data($0).write(to: URL(fileURLWithPath: file)) }
    defer { Files.remove(file) }
    let pipe = Pipe()
    let children = try (0..<processes).map { _ in
      try Child(
        ["--child-replay", path, file] + (isInTurns ? ["in-turns"] : []),
        input: isInTurns ? nil : pipe.fileHandleForReading)
    }
    for child in children { _ = try child.line() }
    try pipe.fileHandleForReading.close()
    let chunks = (keys.count + chunk - 1) / chunk
    let numbers = (0..<UInt32(chunks)).map { number in withUnsafeBytes(of: number) { Data($0) } }
    if isInTurns {
      for (number, bytes) in numbers.enumerated() {
        try children[number % processes].send(bytes)
        _ = try children[number % processes].line()
      }
      for child in children { child.endInput() }
    } else {
      try pipe.fileHandleForWriting.write(contentsOf: Data(numbers.joined()))
    }
    try pipe.fileHandleForWriting.close()
    let hits = try children.map { Int(try $0.number()) }
    for child in children { try child.finish() }
    return hits.reduce(0, +)
  }

  static func child(_ path: String, _ file: String, isInTurns: Bool) throws {
    let data = try Data(contentsOf: URL(fileURLWithPath: file))
    let keys = data.withUnsafeBytes { Array($0.bindMemory(to: UInt32.self)) }
    let store = try SharedStore(at: path)
    let namespace = try store.namespace("trace")
    var hits = 0
    Child.say("ready")
    while let next = try FileHandle.standardInput.read(upToCount: 4), next.count == 4 {
      let start = Int(next.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }) * chunk
      hits += try replay(keys[start..<min(start + chunk, keys.count)], namespace)
      if isInTurns { Child.say("done") }
    }
    store.close()
    Child.say("\(hits)")
  }
}
