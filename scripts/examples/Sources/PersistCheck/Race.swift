// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Hummingbird
import HummingbirdLarder
import Larder

/// Four processes that create the same keys at the same time.
struct Race {
  static let keys = 500
  let path: String

  /// Starts the processes.
  ///
  /// - Returns: The number of keys that each of them created.
  func run() throws -> [Int] {
    let racers = try (1...4).map { _ in
      let process = Process()
      let output = Pipe()
      process.executableURL = Bundle.main.executableURL
      process.arguments = ["create", path]
      process.standardOutput = output
      try process.run()
      return (process, output.fileHandleForReading)
    }
    return racers.map { process, output in
      let text = String(decoding: output.readDataToEndOfFile(), as: UTF8.self)
      process.waitUntilExit()
      return Int(text.trimmingCharacters(in: .newlines)) ?? -1
    }
  }

  /// Creates the keys in this process, from the time at which four processes have come here, and prints
  /// the number of those that it created.
  func takePart() async throws {
    let store = try SharedStore(at: path)
    defer { store.close() }
    let driver = LarderPersistDriver(store)
    try await store.barrier("start", parties: 4).wait(timeout: .seconds(60))
    var created = 0
    for key in 1...Self.keys {
      do {
        try await driver.create(key: "race/\(key)", value: getpid())
        created += 1
      } catch let error as PersistError where error == .duplicate {}
    }
    print(created)
  }
}
