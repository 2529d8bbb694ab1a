// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderStorage
import LarderTesting
import Synchronization
import Testing

/// A minimal custom storage: two asynchronous methods over an actor.
struct Remote: StorageProtocol {
  actor Contents {
    var values: [[UInt8]: Data] = [:]
    func set(_ value: Data?, _ key: String) { values[Array(key.utf8)] = value }
    func value(_ key: String) -> Data? { values[Array(key.utf8)] }
    func clear() { values = [:] }
  }

  let contents = Contents()

  func value(forKey key: String) async throws -> Data? {
    let value = await contents.value(key)
    // The answer is on its way for a while, in which others write.
    for _ in 0..<Int.random(in: 1...20) { await Task.yield() }
    return value
  }

  func set(_ value: Data, forKey key: String) async throws {
    await Task.yield()
    await contents.set(value, key)
  }

  /// The same, with removing.
  var removable: Storage<String, Data> {
    var operations = operations
    let contents = contents
    operations.remove = .asynchronous { await contents.set(nil, $0) }
    operations.removeAll = .asynchronous { _ in await contents.clear() }
    return Storage(storageName: "remote", operations: operations)
  }
}

struct Broken: Error, Equatable {}

/// A storage that fails.
struct Failing<Value: Sendable>: SynchronousStorage {
  func value(forKey key: String) throws -> Value? { throw Broken() }
  func set(_ value: Value, forKey key: String) throws { throw Broken() }
}

/// Something that is opened once and lets all through then.
final class Door: Sendable {
  private let state = Mutex<(isOpen: Bool, waiting: [CheckedContinuation<Void, Never>])>(
    (false, []))

  func pass() async {
    await withCheckedContinuation { continuation in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.waiting.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }

  func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }
}

extension TemporaryDirectory {
  func folder(_ name: String = "folder") -> DiskFolderStorage {
    DiskFolderStorage(folderURL: URL(fileURLWithPath: appending(name)))
  }
}

func text(_ text: String) -> Data { Data(text.utf8) }
