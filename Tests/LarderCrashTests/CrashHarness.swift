// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting

/// A harness that injects faults into scenarios: a victim, a witness that may have the store open,
/// and an oracle that opens it afterwards. Witness and oracle live from one fault to the next.
final class CrashHarness {
  /// A judgement that failed.
  struct UnexpectedOutcome: Error, CustomStringConvertible { let description: String }

  /// The fault injected into the victim.
  enum InjectedFault: CustomStringConvertible {
    case none
    case fault(String)
    case call(name: String, number: Int, tampering: String)

    var description: String {
      switch self {
      case .none: "nothing"
      case .fault(let faults): faults
      case .call(let name, let number, let tampering): "\(name):\(tampering):when=\(number)"
      }
    }

    var isLethal: Bool {
      switch self {
      case .none: false
      case .fault(let faults): faults.contains(":kill")
      case .call(_, _, let tampering): tampering == "signal=SIGKILL"
      }
    }
  }

  private let scratch: Scratch
  private var grounds: [String: String] = [:]
  private var count = 0
  private var witness: ChildProcess?
  private var judge: ChildProcess?
  private var recording: String?
  private var earlierBoot: SystemBoot?

  init() throws { scratch = try Scratch() }

  /// Runs a scenario, injects the fault, and checks the result.
  ///
  /// - Returns: Whether the fault was injected.
  func strike(_ scenario: Scenario, _ blow: InjectedFault) throws -> Bool {
    count += 1
    let path = scratch.appending("store\(count)")
    let log = scratch.appending("log\(count)")
    try TestFiles.makeDirectory(log)
    defer {
      TestFiles.removeAll(path)
      TestFiles.removeAll(log)
    }
    do {
      return try strike(scenario, blow, path, log)
    } catch {
      // A peer that may hang is replaced.
      (witness, judge) = (nil, nil)
      throw UnexpectedOutcome(description: "\(scenario), \(blow): \(error)")
    }
  }

  private func strike(
    _ scenario: Scenario, _ blow: InjectedFault, _ path: String, _ log: String
  ) throws -> Bool {
    var model = StoreModel()
    if case .store(let sameBoot) = scenario.ground {
      try TestFiles.copyTree(ground(scenario, sameBoot: sameBoot), to: path)
      model = StoreModel(after: Scenario.groundScript)
    }
    let witness = try scenario.hasWitness ? open(&self.witness, path, scenario) : nil
    try scenario.tamper?(path)
    let commands = scenario.commands(path, log: log)
    let victim = try start(blow)
    victim.sendAll(commands)
    let answers = try victim.remainingLines()
    let status = try victim.wait()
    // The store must survive that as any other end of a process.
    let isEndedByDispatch = try status == .signalled(SIGILL) && hasStruckDispatch(blow)
    let hasFallen = status == .signalled(SIGKILL) || isEndedByDispatch
    if !hasFallen, status != .exited(0) {
      throw UnexpectedOutcome(description: "The victim \(status). \(victim.standardErrorText)")
    }
    if hasFallen, !blow.isLethal, !isEndedByDispatch {
      throw UnexpectedOutcome(description: "The victim was killed.")
    }
    try account(
      commands, answers, &model, mayFail: !blow.isLethal, mayForget: mayForget(scenario, blow))
    if !hasFallen, answers.count != commands.count {
      throw UnexpectedOutcome(
        description: "\(answers.count) answers to \(commands.count) commands.")
    }
    try examine(path, scenario, model, witness, mayForget(scenario, blow))
    return hasFallen
  }

  /// Returns whether the fault hit a call of libdispatch and not one of the store.
  private func hasStruckDispatch(_ blow: InjectedFault) throws -> Bool {
    guard case .call = blow else { return false }
    return StraceLog.hasStruckDispatch(StraceLog.parse(try TestFiles.contents(of: struckCalls)))
  }

  /// The recorded calls of the name that got the fault.
  private var struckCalls: String { scratch.appending("struck") }

  private func start(_ blow: InjectedFault) throws -> ChildProcess {
    var environment: [String: String] = [:]
    switch blow {
    case .call(let name, let number, let tampering):
      return try Strace.shared.start(
        call: name, inject: "\(name):\(tampering):when=\(number)", log: struckCalls,
        environment: environment)
    case .fault(let faults): environment["LARDER_FAULTS"] = faults
    case .none:
      if let recording {
        return try Strace.shared.start(
          recording: SystemCallSite.names + ["read"], to: recording, withData: false,
          environment: environment)
      }
    }
    return try TestExecutable.peer.start(environment: environment, standardError: .captured)
  }

  /// The system calls of a scenario, from the victim's first command on.
  func sites(of scenario: Scenario) throws -> [SystemCallSite] {
    let calls = scratch.appending("calls")
    recording = calls
    defer { recording = nil }
    _ = try strike(scenario, .none)
    return try SystemCallSite.all(in: calls)
  }

  /// A cache may evict, and start empty when it cannot trust its file; a kill does not justify
  /// that.
  private func mayForget(_ scenario: Scenario, _ blow: InjectedFault) -> Bool {
    scenario.mayForget || (!blow.isLethal && scenario.durability == .cache)
  }

  // MARK: Judging

  /// Records the victim's answers: every acknowledged command has to be in the store.
  private func account(
    _ commands: [String], _ answers: [String], _ model: inout StoreModel, mayFail: Bool,
    mayForget: Bool
  ) throws {
    var isOpen = false
    for (command, answer) in zip(commands, answers) {
      if command.hasPrefix("open ") { isOpen = answer.hasPrefix("opened ") }
      if answer.hasPrefix("error ") {
        let code = answer.split(separator: " ")[1]
        let isTyped = Self.codes.contains(String(code)) || !isOpen && code == "open"
        guard mayFail, isTyped else {
          throw UnexpectedOutcome(description: "\"\(command)\" was answered with \"\(answer)\".")
        }
        model.attempt(command)
      } else if command.hasPrefix("get ") {
        guard model.admits(answer, to: String(command.dropFirst(4)), mayForget: mayForget) else {
          throw UnexpectedOutcome(description: "\"\(command)\" was answered with \"\(answer)\".")
        }
      } else {
        model.acknowledge(command)
      }
    }
    if answers.count < commands.count { model.attempt(commands[answers.count]) }
  }

  private static let codes: Set<String> = [
    "directory", "fileSystem", "damaged", "openTimeout", "storageFull", "writerStalled",
    "outcomeUnknown", "system", "unreadableEntry",
  ]

  /// The witness continues, a new process opens the store, and both find the acknowledged data.
  private func examine(
    _ path: String, _ scenario: Scenario, _ model: StoreModel, _ witness: ChildProcess?,
    _ mayForget: Bool
  ) throws {
    var model = model
    if let witness {
      model.settle(on: try read(witness, model, mayForget, "witness"))
      try write(witness, "set 27 witness", &model)
    }
    let judge = try open(&self.judge, path, scenario)
    let state = try read(judge, model, mayForget, "judge")
    if scenario.options.isEmpty { model.settle(on: state) }
    try write(judge, "set 28 judge", &model)
    guard try StoreState.read(from: try StorePaths(path).state)?.isDirty ?? true else {
      throw UnexpectedOutcome(description: "`state` is clean, though there are commits.")
    }
    let findings = try judge.ask("verify")
    if findings != "sound" { throw UnexpectedOutcome(description: "verify: \(findings)") }
    if let witness {
      _ = try read(witness, model, mayForget, "witness in the end")
      try order(witness, "close")
    }
    try order(judge, "close")
  }

  private func read(
    _ peer: ChildProcess, _ model: StoreModel, _ mayForget: Bool, _ reader: String
  ) throws -> StoreModel.State {
    let dump = try peer.ask("dump 0 30")
    guard let state = StoreModel.state(of: dump), model.admits(state, mayForget: mayForget) else {
      throw UnexpectedOutcome(
        description: "The \(reader) read \(dump), and not one of \(model.states).")
    }
    return state
  }

  private func write(_ peer: ChildProcess, _ command: String, _ model: inout StoreModel) throws {
    try order(peer, command)
    model.acknowledge(command)
  }

  private func order(_ peer: ChildProcess, _ command: String) throws {
    let answer = try peer.ask(command)
    if answer != "ok" { throw UnexpectedOutcome(description: "\"\(command)\": \(answer)") }
  }

  // MARK: Grounds and peers

  private func open(
    _ peer: inout ChildProcess?, _ path: String, _ scenario: Scenario
  ) throws -> ChildProcess {
    let process = try peer ?? TestExecutable.peer.start()
    peer = process
    let answer = try process.ask("open \(path) \(scenario.openOptions)")
    if !answer.hasPrefix("opened ") { throw UnexpectedOutcome(description: "open: \(answer)") }
    return process
  }

  /// A closed store to copy.
  private func ground(_ scenario: Scenario, sameBoot: Bool) throws -> String {
    let key = "\(scenario.openOptions) \(sameBoot)"
    if let known = grounds[key] { return known }
    let path = scratch.appending("ground\(grounds.count)")
    let commands = ["open \(path) \(scenario.openOptions)"] + Scenario.groundScript + ["close"]
    let boot = sameBoot ? nil : try earlierBoot ?? SystemBoot()
    earlierBoot = boot ?? earlierBoot
    let outcome = try ChildProcess.run(
      TestExecutable.peer.path, input: commands, environment: boot?.environment ?? [:])
    guard outcome.status.isSuccess, !outcome.output.contains("error") else {
      throw UnexpectedOutcome(description: "No ground: \(outcome)")
    }
    grounds[key] = path
    return path
  }
}

extension ChildProcess {
  /// Sends lines to a process that need not live to read them, and ends its input.
  func sendAll(_ lines: [String]) {
    for line in lines {
      if (try? send(line)) == nil { break }
    }
    closeInput()
  }
}
