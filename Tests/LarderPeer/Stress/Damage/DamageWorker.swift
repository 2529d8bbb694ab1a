// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderTesting

/// The child processes of the damage mode.
///
///     LarderPeer stress damage-worker build WORK SEED TEMPLATE
///     LarderPeer stress damage-worker open WORK SEED INDEX FIRST STEP [COUNT]
///     LarderPeer stress damage-worker live STORE BOARD ID
enum DamageWorker {
  static func run(_ arguments: [String]) throws {
    func number(_ index: Int) throws -> UInt64 {
      guard index < arguments.count, let value = UInt64(arguments[index]) else {
        throw DamageFailure("damage-worker: argument \(index) is not a number: \(arguments)")
      }
      return value
    }
    switch arguments.first {
    case "build":
      let template = DamageTemplate.all[Int(try number(3))]
      try template.build(at: "\(arguments[1])/t\(template.number)", seed: try number(2))
    case "open":
      let count = arguments.count > 6 ? Int(try number(6)) : Int.max
      try open(
        arguments[1], seed: try number(2), index: Int(try number(3)), first: Int(try number(4)),
        step: Int(try number(5)), count: count)
    case "live":
      var worker = try LiveWorker(
        path: arguments[1], board: arguments[2], id: Int(try number(3)))
      try worker.run()
    default: throw DamageFailure("damage-worker: \(arguments)")
    }
  }

  /// Runs the cases first, first + step, … until the parent sets the stop word.
  private static func open(
    _ work: String, seed: UInt64, index: Int, first: Int, step: Int, count: Int
  ) throws {
    let board = try DamageProgress(path: DamageRun.board(work, index))
    let catalog = try DamagePlan.Catalog(below: work)
    let models = DamageTemplate.all.map { DamageModel(template: $0.number, seed: seed) }
    var number = first
    var done = 0
    while done < count, board[.stop] == 0 {
      board.begin(number)
      let plan = DamagePlan(seed: seed, number: number, catalog: catalog)
      let path = "\(work)/w\(index)"
      var session = DamageSession(plan: plan, models: models, board: board, path: path)
      try session.run()
      for violation in session.violations { ParentProcess.send("\(number) \(violation)") }
      board.add(.finished)
      number += step
      done += 1
    }
    board[.current] = 0
  }
}
#endif
