// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting

/// An operation of a process on a store that gets a fault at every step.
struct Scenario: Sendable, CustomStringConvertible {
  /// The initial state.
  enum StoreFixture: Sendable {
    case nothing
    /// A store that was closed in order, in this boot or in another one.
    case store(sameBoot: Bool)
  }

  let name: String
  var durability: Durability = .cache
  var options = ""
  var ground = StoreFixture.store(sameBoot: true)
  /// Whether another process has the store open all the time.
  var hasWitness = false
  /// The change made to the closed store, or to the one the witness has open.
  var tamper: (@Sendable (_ path: String) throws -> Void)?
  /// The victim's commands after `open`.
  var script: [String] = []
  /// Whether entries may be missing: evicted, or lost with a fenced generation.
  var mayForget = false

  var description: String { name }

  /// The victim's commands.
  func commands(_ path: String, log: String) -> [String] {
    ["open \(path) \(openOptions)"] + script.map { $0.replacing("LOG", with: log) }
  }

  var openOptions: String { options + Scenario.option(durability) }

  /// Background syncs of a relaxed store come at random times: the interval of an hour prevents
  /// them.
  static func option(_ durability: Durability) -> String {
    switch durability {
    case .cache: ""
    case .durable: " durable"
    case .durableStrict: " strict"
    case .relaxed: " relaxed interval=3600000"
    }
  }

  /// The contents of the store in the fixture.
  static let groundScript =
    (0..<8).map { "set \($0) old\($0)" } + ["large 8 30000", "pair old", "set 9 old9"]

  static let commits = [
    "set 20 new20", "set 1 new1", "remove 2", "pair new", "large 8 40000", "get 20", "set 21 new21",
  ]

  static let all: [Scenario] = [
    Scenario(name: "create a cache", ground: .nothing, script: ["set 1 one", "close"]),
    Scenario(
      name: "create a durable store", durability: .durable, ground: .nothing,
      script: ["set 1 one", "close"]),
    Scenario(name: "open alone", script: ["get 1", "dump 0 30", "close"]),
    Scenario(name: "open with another", hasWitness: true, script: ["get 1", "dump 0 30"]),
    Scenario(name: "commit to a cache", hasWitness: true, script: commits),
    Scenario(name: "commit alone", script: commits),
    Scenario(
      name: "commit to a durable store", durability: .durable, hasWitness: true, script: commits),
    Scenario(name: "write behind", hasWitness: true, script: ["behind 20 new", "sync", "close"]),
    Scenario(
      name: "evict", options: "budget=150000", hasWitness: true,
      script: (20..<25).map { "large \($0) 14000" }, mayForget: true),
    Scenario(
      name: "remove everything", hasWitness: true,
      script: ["removeall", "set 20 new", "removeall", "set 21 new"]),
    Scenario(
      name: "remake a table that is gone", tamper: removeTable, script: ["set 20 new", "close"]),
    Scenario(
      name: "remake the table of another boot", ground: .store(sameBoot: false),
      script: ["set 20 new", "close"]),
    Scenario(
      name: "a durable store after a crash of the system", durability: .durable,
      ground: .store(sameBoot: false), tamper: dirty, script: ["set 20 new", "close"]),
    Scenario(
      name: "a cache after a crash of the system", ground: .store(sameBoot: false), tamper: dirty,
      script: ["set 20 new", "close"], mayForget: true),
    Scenario(
      name: "condemn a damaged file", tamper: damageData, script: ["set 20 new"], mayForget: true),
    Scenario(
      name: "condemn with another", hasWitness: true, tamper: bindTableElsewhere,
      script: ["set 20 new", "get 20"], mayForget: true),
    Scenario(
      name: "condemn a damaged table with another", hasWitness: true, tamper: damageTable,
      script: ["set 20 new", "get 20"], mayForget: true),
    Scenario(
      name: "compact with another", hasWitness: true,
      script: ["set 20 new", "compact", "set 21 new", "get 20"]),
    Scenario(
      name: "compact a durable store", durability: .durable,
      script: ["set 20 new", "compact", "set 21 new", "get 20", "close"]),
    Scenario(
      name: "compact a durable store with another", durability: .durable, hasWitness: true,
      script: ["set 20 new", "compact", "set 21 new", "get 20"]),
    Scenario(
      name: "create a relaxed store", durability: .relaxed, ground: .nothing,
      script: ["set 1 one", "close"]),
    Scenario(
      name: "commit to a relaxed store", durability: .relaxed, hasWitness: true, script: commits),
    Scenario(
      name: "sync a relaxed store", durability: .relaxed,
      script: [
        "set 20 new20", "checkpoint", "set 1 new1", "remove 2", "checkpoint", "set 21 new21",
        "sync",
      ]),
    Scenario(
      name: "sync a relaxed store with another", durability: .relaxed, hasWitness: true,
      script: ["set 20 new20", "checkpoint", "set 1 new1", "checkpoint", "get 20", "sync"]),
    Scenario(
      name: "a relaxed store after a crash of the system", durability: .relaxed,
      ground: .store(sameBoot: false), tamper: dirty, script: ["set 20 new", "close"]),
    Scenario(
      name: "compact a relaxed store with another", durability: .relaxed, hasWitness: true,
      script: ["set 20 new", "compact", "set 21 new", "get 20"]),
    Scenario(name: "close alone", script: ["set 20 new", "close"]),
    Scenario(
      name: "close a durable store", durability: .durable, script: ["set 20 new", "close"]),
    Scenario(
      name: "close a relaxed store", durability: .relaxed, script: ["set 20 new", "close"]),
    Scenario(name: "close with another", hasWitness: true, script: ["set 20 new", "close"]),
    Scenario(name: "compute", hasWitness: true, script: ["compute 20 new LOG", "set 21 new"]),
  ]

  static func named(_ name: String) -> Scenario { all.first { $0.name == name }! }
}

// MARK: - Tampering

/// The files of a closed or open store.
struct StorePaths {
  let root: String
  let generation: String

  init(_ path: String) throws {
    guard let (directory, _) = StoreDirectory.find(path),
      let number = try CurrentPointer.read(in: directory)
    else { throw CrashHarness.UnexpectedOutcome(description: "There is no store in \(path).") }
    root = directory.root
    generation = directory.generation(number)
  }

  var table: String { generation + "/shared.table" }
  var state: String { generation + "/state" }
  var data: String { generation + "/data.mdb" }
  var lock: String { generation + "/lock.mdb" }
}

@Sendable private func removeTable(_ path: String) throws {
  TestFiles.removeAll(try StorePaths(path).table)
}

/// As if the store had been in use when the system went down.
@Sendable private func dirty(_ path: String) throws {
  let file = try StorePaths(path).state
  var state = try StoreState.read(from: file)!
  state.isDirty = true
  try TestFiles.write(state.bytes(), to: file)
}

@Sendable private func damageData(_ path: String) throws {
  try TestFiles.overwrite([UInt8](repeating: 0x5a, count: 8192), at: 0, in: StorePaths(path).data)
}

@Sendable private func bindTableElsewhere(_ path: String) throws {
  let foreign = [UInt8](repeating: 0x5a, count: 16)
  try TestFiles.overwrite(foreign, at: SharedTableLayout.storeIDOffset, in: StorePaths(path).table)
}

@Sendable private func damageTable(_ path: String) throws {
  try TestFiles.overwrite([1], at: SharedTableLayout.magicOffset, in: StorePaths(path).table)
}
