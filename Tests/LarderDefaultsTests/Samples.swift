// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
public import LarderDefaults
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// A fresh suite, and its directory for other processes.
struct StoreFixture {
  let directory: TemporaryDirectory
  let path: String
  let defaults: Defaults
  let errors = Log<String>()

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.appending("suite")
    defaults = try Defaults(at: path)
    defaults.onError { [errors] in errors.append("\($0)") }
  }

  /// Starts a peer that has the suite open.
  func peer() throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    try peer.send("defaults open \(path)")
    try peer.expect("ok")
    return peer
  }
}

/// Lines any thread may add.
final class Log<Element: Sendable>: Sendable {
  private let lines = Mutex<[Element]>([])
  private let (stream, continuation) = AsyncStream.makeStream(of: Element.self)

  func append(_ line: Element) {
    lines.withLock { $0.append(line) }
    continuation.yield(line)
  }

  var all: [Element] { lines.withLock { $0 } }

  /// Waits until a line is added that fits.
  func wait(for fits: (Element) -> Bool) async {
    for await line in stream where fits(line) { return }
  }
}

struct Profile: Codable, Sendable, Hashable {
  var name = "value"
  var birthday: Date?
  var picture: Data?
}

/// A type that must not be shared.
final class Shared: Codable {
  var count: Int
  init(count: Int) { self.count = count }
}

extension Defaults: PropertyDefaults {
  var title: String? {
    get { get() }
    set { set(newValue) }
  }
  var ratio: Float? {
    get { get() }
    set { set(newValue) }
  }
  var level: Int {
    get { get(or: 5) }
    set { set(newValue) }
  }
  var profile: Profile {
    get { get(or: Profile()) }
    set { set(newValue) }
  }
  var profileOrNew: Profile? {
    get { get() }
    set { set(newValue, or: Profile()) }
  }
  var shout: String { (title ?? "").uppercased() + "!" }
}

private protocol ReaderDefaults: PropertyDefaults {
  var page: Int? { get nonmutating set }
}

extension Defaults: ReaderDefaults {
  fileprivate var page: Int? {
    get { get() }
    set { set(newValue) }
  }
}

extension Defaults {
  /// The value of a property of a protocol that only this file sees.
  var pageThroughProtocol: Int? {
    get { (self as any ReaderDefaults).page }
    set { (self as any ReaderDefaults).page = newValue }
  }
}

extension DefaultsKeys {
  static let theme = DefaultsKey<String>("theme", default: "light")
  static let lastUser = DefaultsKey<UUID?>("lastUser")
  static let sizes = DefaultsKey<[Int]>("sizes", default: [])
}
