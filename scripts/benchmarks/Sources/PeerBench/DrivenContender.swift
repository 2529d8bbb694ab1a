// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// A contender in another process, which times itself and is told by lines what to do.
final class DrivenContender: BenchmarkSubject {
  let name: String
  private let child: Child

  private init(_ name: String, _ child: Child) {
    self.name = name
    self.child = child
  }

  /// Python's diskcache, in this directory; the values are in a file.
  static func diskcache(
    in directory: String, policy: String, values: String, _ data: Dataset, loads: Bool,
    limit: Int = 1 << 32
  ) throws -> DrivenContender {
    let environment = ProcessInfo.processInfo.environment
    guard let script = environment["LARDER_BENCH_DISKCACHE"],
      let python = environment["LARDER_BENCH_PYTHON"],
      let path = environment["LARDER_BENCH_PYTHONPATH"]
    else { throw BenchFailure("diskcache is absent.") }
    let child = try Child(
      [script, directory, policy, values, "\(data.size)", "\(data.count)", "\(limit)"],
      executable: python,
      environment: ["PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"])
    let version = try child.line().split(separator: " ")
    if loads {
      try child.send("load")
      _ = try child.line()
    }
    let short = policy == "least-recently-used" ? "LRU" : "default policy"
    return DrivenContender("\(version[0]) \(version[1]), \(short)", child)
  }

  /// Larder in a process of its own.
  static func larder(
    store: String, values: String, _ data: Dataset
  ) throws -> DrivenContender {
    try driven("larder", store, "Larder, store", values: values, data)
  }

  /// A rival whose data is there, in a process of its own: "redis" at a socket, "grdb" in a directory.
  static func driven(
    _ kind: String, _ place: String, _ name: String, values: String, _ data: Dataset
  ) throws -> DrivenContender {
    let child = try Child([
      "--child-drive", kind, place, values, "\(data.size)", "\(data.count)",
    ])
    return DrivenContender(name, child)
  }

  // MARK: From here

  func start(set keys: [UInt32], shift: Int) throws {
    try child.send("set \(shift) " + keys.map(String.init).joined(separator: " "))
  }

  /// Random keys for a while, with the value each has at first.
  func start(_ kind: ComparisonRun.Kind, seconds: Double, seed: Int) throws {
    try child.send("go \(kind) \(seconds) \(seed)")
  }

  /// Calls a second, of what `start(_:seconds:seed:)` began.
  func rate() throws -> Double {
    let numbers = try child.numbers()
    return Double(numbers[0]) * 1e9 / Double(numbers[1])
  }

  func answer() throws -> [UInt32] { try child.numbers().map { UInt32(clamping: $0) } }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    try child.send("get " + keys.map(String.init).joined(separator: " "))
    var numbers = try child.numbers()
    guard numbers.count == keys.count + 1 else { throw BenchFailure("\(name) answered nonsense.") }
    let sum = numbers.removeLast()
    times += numbers.map { UInt32(clamping: $0) }
    return sum
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    try start(set: keys, shift: shift)
    times += try answer()
  }

  func value(_ key: Int) throws -> [UInt8] {
    try child.send("value \(key)")
    let digits = Array(try child.line().utf8)
    return stride(from: 0, to: digits.count - 1, by: 2).map { index in
      UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16) ?? 0
    }
  }

  /// diskcache only: what is set from now on lives so long.
  func setLife(seconds: Double) throws { try child.send("life \(seconds)") }

  func finish() throws { try child.finish() }

  // MARK: In the other process

  /// What diskcache_rival.py does, with Larder: the same lines, the same answers.
  static func drive(_ arguments: [String]) throws {
    let kind = arguments[0]
    let arguments = Array(arguments.dropFirst())
    guard kind == "larder" else { return try drive(kind, arguments) }
    let (size, count) = (Int(arguments[2])!, Int(arguments[3])!)
    let file = try Data(contentsOf: URL(fileURLWithPath: arguments[1]))
    let values = (0..<count).map { Array(file[$0 * size..<($0 + 1) * size]) }
    let keys = (0..<count).map(Dataset.key)
    let store = try SharedStore(at: arguments[0])
    defer { store.close() }
    let namespace = try store.namespace("values")
    // The first transaction of a process is none like the others.
    _ = try namespace.bytes(forKey: keys[0])
    var times: [UInt32] = []
    while let line = readLine() {
      let words = line.split(separator: " ")
      times.removeAll(keepingCapacity: true)
      switch words[0] {
      case "set":
        let numbers = words.dropFirst().map { Int($0)! }
        for key in numbers.dropFirst() {
          let value = values[(key + numbers[0]) % count]
          let start = bench_now()
          try namespace.setBytes(value, forKey: keys[key])
          times.append(UInt32(clamping: bench_now() - start))
        }
        Child.say(times.map(String.init).joined(separator: " "))
      case "go":
        var random = Numbers(seed: UInt64(words[3])!)
        let (start, end) = (bench_now(), Double(words[2])! * 1e9)
        var calls = 0
        while Double(bench_now() - start) < end {
          let key = Int.random(in: 0..<count, using: &random)
          if words[1] == "get" {
            guard try namespace.bytes(forKey: keys[key])?.count == size else {
              throw BenchFailure("A key is missing.")
            }
          } else {
            try namespace.setBytes(values[key], forKey: keys[key])
          }
          calls += 1
        }
        Child.say("\(calls) \(bench_now() - start)")
      default: throw BenchFailure("There is no command \(words[0]).")
      }
    }
  }

  /// A rival: it is only told to go.
  private static func drive(_ kind: String, _ arguments: [String]) throws {
    let data = Dataset(count: Int(arguments[3])!, size: Int(arguments[2])!)
    let contender: any BenchmarkSubject =
      kind == "redis"
      ? CContender.redis(arguments[0], data, loads: false)
      : try GRDBContender(in: arguments[0], data, synchronous: "OFF", loads: false)
    while let line = readLine() {
      let words = line.split(separator: " ")
      guard words[0] == "go" else { throw BenchFailure("There is no command \(words[0]).") }
      var random = Numbers(seed: UInt64(words[3])!)
      let (start, end) = (bench_now(), Double(words[2])! * 1e9)
      var calls = 0
      var times: [UInt32] = []
      while Double(bench_now() - start) < end {
        let keys = (0..<16).map { _ in UInt32.random(in: 0..<UInt32(data.count), using: &random) }
        times.removeAll(keepingCapacity: true)
        if words[1] == "get" {
          _ = try contender.get(keys, &times)
        } else {
          try contender.set(keys, shift: 0, &times)
        }
        calls += keys.count
      }
      Child.say("\(calls) \(bench_now() - start)")
    }
  }
}
