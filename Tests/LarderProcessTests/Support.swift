// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Tests over several processes.
@Suite struct Processes {}

/// Those that kill many processes, or have many. Without a second chain a processor would be idle at the end.
@Suite(.serialized) struct ProcessStorms {}

/// A fresh directory with a store in it that this process has open too.
struct StoreFixture {
  let directory: TemporaryDirectory
  let path: String
  let store: SharedStore
  let numbers: PersistentCache<Int, String>

  /// - Parameter options: Limits that a test does not set only end a hang: on a busy machine a process may wait for
  ///   minutes for others.
  init(_ options: StoreOptions = StoreOptions()) throws {
    var options = options
    let usual = StoreOptions()
    if options.openTimeout == usual.openTimeout { options.openTimeout = .seconds(600) }
    if options.writeTimeout == usual.writeTimeout { options.writeTimeout = .seconds(600) }
    directory = try TemporaryDirectory()
    path = directory.appending("store")
    store = try SharedStore(at: path, options)
    numbers = PersistentCache(storage: store)
  }

  /// Starts a peer that has the store open.
  func peer(_ options: String = "", environment: [String: String] = [:]) throws -> ChildProcess {
    let peer = try TestExecutable.peer.start(environment: environment)
    let answer = try peer.ask("open \(path) \(options)")
    try #require(answer.hasPrefix("opened "), "\(answer)")
    return peer
  }
}

extension ChildProcess {
  /// Sends a line and demands the answer `ok`.
  func order(_ line: String) throws {
    try send(line)
    try expect("ok")
  }

  /// Sends a line and returns the numbers of the answer, whose first word must be `word`.
  func numbers(_ line: String, _ word: String) throws -> [Int] {
    let answer = try ask(line)
    let words = answer.split(separator: " ")
    try #require(words.first.map(String.init) == word, "\(answer)")
    return words.dropFirst().compactMap { Int($0) }
  }

  /// Lets the peer exit, and requires that it exits successfully.
  func dismiss() throws {
    closeInput()
    let status = try wait()
    #expect(status == .exited(0))
  }
}
