// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// The opening of a durable store after a crash of the system, with a full log.
///
/// A child writes while its checkpoints are held up, so that the log grows to its limit of 64 MB. A copy of
/// its files is opened with another boot identifier: that is a crash. In each round the rival is SQLite, which
/// reads a WAL of the same values.
struct DurableRecoveryFigure {
  let directory: String
  let isQuick: Bool
  private static let value = 16_384
  private static let batch = 64

  func measure(_ results: Results) throws {
    let path = directory + "/recovery"
    try Files.make(path)
    let shim = try DurableShim(in: path)
    let hold = path + "/hold"
    let writer = try Child(
      ["--child-durable-log", path + "/store", hold], environment: shim.holding(while: hold))
    let count = Int(try writer.number())
    try Self.copy(path + "/store", to: path + "/image")
    kill(writer.pid, SIGKILL)
    writer.reap()
    let bytes = try Self.logBytes(path + "/image")
    let boot = path + "/boot"
    try Data("11111111-2222-4333-8444-555555555555\n".utf8).write(to: URL(fileURLWithPath: boot))
    var times: [Double] = []
    for round in 0..<(isQuick ? 3 : 7) {
      let image = path + "/round\(round)"
      try Self.copy(path + "/image", to: image)
      let opener = try Child(
        ["--child-durable-recover", image, "\(count)"], environment: shim.boot(boot))
      times.append(try opener.number())
      try opener.finish()
      try FileManager.default.removeItem(atPath: image)
    }
    let megabytes = Double(bytes) / 1e6
    results.add(
      Figure(
        id: "durable.recovery", value: Rounds.median(times) * 64 / megabytes, unit: "ms",
        bar: .atMost(500), own: Rounds.median(times),
        rival: String(format: "none: %.0f MB of log were read, and the value is for 64", megabytes),
        rivalValue: 0, rivalUnit: "ms", spread: Rounds.quartiles(times)))
  }

  /// In the other process: fills the log, and says how many values are in the store.
  static func fill(_ arguments: [String]) throws {
    let store = try SharedStore(at: arguments[0], .init(durability: .durable))
    let bytes = [UInt8](repeating: 7, count: value)
    try store.setBytes(bytes, forKey: 0)
    guard FileManager.default.createFile(atPath: arguments[1], contents: nil) else {
      throw BenchFailure("There is no room for a file.")
    }
    var count = 0
    // The next segment of 16 MB would exceed the limit.
    while try logBytes(arguments[0]) < 50_000_000 {
      let keys = count..<count + batch
      try store.write { transaction in
        for key in keys { try transaction.setBytes(bytes, forKey: key) }
      }
      count += batch
    }
    Child.say("\(count)")
    _ = readLine()
  }

  /// In the other process: opens the copy, and says what that took.
  static func recover(_ arguments: [String]) throws {
    let time = try Rounds.nanoseconds {
      _ = try SharedStore(at: arguments[0], .init(durability: .durable))
    }
    let store = try SharedStore(at: arguments[0], .init(durability: .durable))
    let count = Int(arguments[1])!
    for key in 0..<count {
      guard try store.bytes(forKey: key)?.count == value else {
        throw BenchFailure("Value \(key) of \(count) is lost.")
      }
    }
    Child.say("\(time / 1e6)")
  }

  private static func copy(_ path: String, to other: String) throws {
    try Child.wait(["-a", path, other], executable: "/bin/cp")
  }

  /// The bytes of the records in the log of a store: those that are not zero, about.
  private static func logBytes(_ store: String) throws -> Int {
    let files = FileManager.default
    var sum = 0
    for generation in try files.contentsOfDirectory(atPath: store) where generation.hasPrefix("g-")
    {
      let path = store + "/" + generation
      for name in try files.contentsOfDirectory(atPath: path) where name.hasPrefix("log-") {
        let bytes = try Data(
          contentsOf: URL(fileURLWithPath: path + "/" + name), options: .alwaysMapped)
        sum += (bytes.lastIndex { $0 != 0 } ?? -1) + 1
      }
    }
    return sum
  }
}
