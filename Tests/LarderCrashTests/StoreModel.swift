// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The states that a store may have after some of the peer's commands, each acknowledged or not.
///
/// Whole states are kept, not values: a command that was not acknowledged has been done or has not
/// been done, and half of it is neither.
struct StoreModel {
  typealias State = [String: String]

  private(set) var states: Set<State> = [[:]]

  init() {}

  init(after script: [String]) {
    for command in script { acknowledge(command) }
  }

  /// Pending writes: committed with the next `sync` or `close` at the latest.
  private var behind: [String] = []

  /// The command was answered: it has been done.
  mutating func acknowledge(_ command: String) {
    if command.hasPrefix("behind ") {
      // Acknowledged immediately, and committed at any time from now on.
      behind.append("set" + command.dropFirst(6))
      attempt(behind.last!)
      return
    }
    if command == "sync" || command == "close" {
      let waiting = behind
      behind = []
      for command in waiting { acknowledge(command) }
    }
    states = Set(states.map { Self.apply(command, to: $0) })
  }

  /// The command may have been done.
  mutating func attempt(_ command: String) {
    if command.hasPrefix("behind ") { return attempt("set" + command.dropFirst(6)) }
    states.formUnion(states.map { Self.apply(command, to: $0) })
  }

  /// The store may also be in the states of another model.
  mutating func join(_ other: StoreModel) { states.formUnion(other.states) }

  /// The store was seen to be in one of the states: the others are out.
  mutating func settle(on state: State) { states = [state] }

  /// Whether a store may be like this. A cache may have forgotten any part of it.
  func admits(_ state: State, mayForget: Bool) -> Bool {
    if !mayForget { return states.contains(state) }
    return states.contains { known in state.allSatisfy { known[$0.key] == $0.value } }
  }

  /// Whether a peer's answer to `get` fits.
  func admits(_ answer: String, to key: String, mayForget: Bool) -> Bool {
    if answer == "none" { return mayForget || states.contains { $0[key] == nil } }
    guard answer.hasPrefix("value ") else { return false }
    return states.contains { $0[key] == String(answer.dropFirst(6)) }
  }

  private static func apply(_ command: String, to state: State) -> State {
    let words = command.split(separator: " ").map(String.init)
    var state = state
    switch words[0] {
    case "set": state[words[1]] = words[2]
    case "large": state[words[1]] = "#\(words[2])"
    case "remove": state[words[1]] = nil
    case "removeall": state = [:]
    case "pair":
      state["left"] = words[1]
      state["right"] = words[1]
    case "compute": if state[words[1]] == nil { state[words[1]] = words[2] }
    default: break
    }
    return state
  }

  /// Returns the state in a peer's answer to `dump`, or nil if it contains no state.
  static func state(of dump: String) -> State? {
    let words = dump.split(separator: " ")
    guard words.first == "dump" else { return nil }
    var state: State = [:]
    for word in words.dropFirst() {
      guard let equals = word.firstIndex(of: "=") else { return nil }
      state[String(word[..<equals])] = String(word[word.index(after: equals)...])
    }
    return state
  }
}
