// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// One law, checked against one storage.
struct StorageLawCheck {
  /// The violation of the law.
  struct LawFailure: Error {
    let message: String
  }

  let storage: StorageLaws
  var random: SeededRandom

  mutating func run(_ law: StorageLaws.Law) async throws {
    try await storage.removeAll()
    switch law {
    case .whatIsSetIsRead: try await whatIsSetIsRead()
    case .theLastSetWins: try await theLastSetWins()
    case .removingRemoves: try await removingRemoves()
    case .removeAllRemovesAll: try await removeAllRemovesAll()
    case .keysAreExact: try await keysAreExact()
    case .containsAgreesWithGet: try await containsAgreesWithGet()
    case .distinctKeysNeverMeet: try await neverMeet(storage.hostileKeys)
    case .canonicallyEqualKeysAreTwo:
      try await neverMeet(["caf\u{E9}", "cafe\u{301}", "\u{C5}", "A\u{30A}", "\u{212B}"])
    case .valuesOfAnySizeComeBack: try await valuesOfAnySizeComeBack()
    case .randomOperationsFollowADictionary: try await randomOperationsFollowADictionary()
    case .concurrentWritersLoseNothing: try await concurrentWritersLoseNothing()
    case .concurrentReadersSeeWholeValues: try await concurrentReadersSeeWholeValues()
    case .concurrentUpdatesLoseNothing: try await concurrentUpdatesLoseNothing()
    }
    try await storage.removeAll()
  }

  // MARK: Sequential laws

  private mutating func whatIsSetIsRead() async throws {
    var stored: [(key: String, value: [UInt8])] = []
    for number in 0..<20 {
      let key = "key \(number) \(random.next())"
      try await expect(nil, for: key, "never set")
      let value = randomValue()
      try await storage.set(key, value)
      try await expect(value, for: key, "just set")
      stored.append((key, value))
    }
    for (key, value) in stored.shuffled(using: &random) {
      try await expect(value, for: key, "set, and others after it")
      try await expect(value, for: key, "read already")
    }
  }

  private mutating func theLastSetWins() async throws {
    let bystander = randomValue()
    try await storage.set("bystander", bystander)
    var last: [UInt8] = []
    // Shorter, longer, as long, the same, empty, and from empty.
    for size in [100, 10, 1000, 1000, 0, 0, 50_000, 3, 40_000, 1] {
      last = randomBytes(size)
      try await storage.set("key", last)
      try await expect(last, for: "key", "set to something else")
    }
    try await storage.set("key", last)
    try await expect(last, for: "key", "set to the same again")
    try await expect(bystander, for: "bystander", "set, and another key was set often")
  }

  private mutating func removingRemoves() async throws {
    let (first, second) = (randomValue(), randomValue())
    try await storage.remove("never set")
    try await storage.set("first", first)
    try await storage.set("second", second)
    for _ in 0..<3 {
      try await storage.remove("first")
      try await expect(nil, for: "first", "removed")
    }
    try await expect(second, for: "second", "set, and another key was removed")
    let again = randomValue()
    try await storage.set("first", again)
    try await expect(again, for: "first", "removed and set again")
    try await storage.set("empty", [])
    try await storage.remove("empty")
    try await expect(nil, for: "empty", "set to no bytes, and removed")
  }

  private mutating func removeAllRemovesAll() async throws {
    let names = (0..<50).map { "key \($0)" } + storage.hostileKeys
    for key in names { try await storage.set(key, randomValue()) }
    // Also recently read values, which a cache may store elsewhere.
    for key in names.prefix(20) { _ = try await storage.get(key) }
    try await storage.removeAll()
    for key in names { try await expect(nil, for: key, "set before everything was removed") }
    if let keys = storage.keys, let left = try await keys().first {
      throw LawFailure(message: "After removeAll, keys still gives \(quoted(left)).")
    }
    let again = randomValue()
    try await storage.set(names[0], again)
    try await expect(again, for: names[0], "set after everything was removed")
    try await expect(nil, for: names[1], "set before everything was removed")
    try await storage.removeAll()
    try await storage.removeAll()
    try await expect(nil, for: names[0], "set before everything was removed twice")
  }

  private mutating func keysAreExact() async throws {
    guard let keys = storage.keys else { return }
    var model = Model()
    for _ in 0..<4 {
      for key in (storage.hostileKeys + (0..<50).map { "key \($0)" }).shuffled(using: &random) {
        if random.chance(30) {
          try await storage.remove(key)
          model[key] = nil
        } else {
          let value = random.chance(10) ? [] : randomValue()
          try await storage.set(key, value)
          model[key] = value
        }
      }
      try compare(try await keys(), with: model)
    }
  }

  private mutating func containsAgreesWithGet() async throws {
    guard let contains = storage.contains else { return }
    for key in storage.hostileKeys + ["key"] {
      for value in [nil, randomValue(), nil, [], nil] {
        if let value { try await storage.set(key, value) } else { try await storage.remove(key) }
        let answers = [try await contains(key), try await storage.get(key) != nil]
        if answers != [value != nil, value != nil] {
          throw LawFailure(
            message: """
              The key \(quoted(key)) is \(value == nil ? "not there" : "there"); contains says \
              \(answers[0]), get finds \(answers[1] ? "a value" : "nothing").
              """)
        }
      }
    }
  }

  private mutating func neverMeet(_ names: [String]) async throws {
    var values: [(key: String, value: [UInt8])] = []
    for key in names.shuffled(using: &random) {
      try await expect(nil, for: key, "never set, but a similar one was")
      let value = randomBytes(24)
      try await storage.set(key, value)
      values.append((key, value))
    }
    for (key, value) in values {
      try await expect(value, for: key, "set, and similar ones after it")
    }
    values.shuffle(using: &random)
    while let (key, _) = values.popLast() {
      try await storage.remove(key)
      try await expect(nil, for: key, "removed")
      for (other, value) in values {
        try await expect(value, for: other, "set, and \(quoted(key)) was removed")
      }
    }
  }

  private mutating func valuesOfAnySizeComeBack() async throws {
    let powers = (0...20).flatMap { [1 << $0 - 1, 1 << $0, 1 << $0 + 1] }
    // Pages and chunks of stores, and the ends of buffers.
    let sizes = (powers + [10, 100, 1000, 2000, 4000, 8176, 32_752, 100_000])
      .filter { $0 <= storage.largestValue }.sorted()
    for size in sizes {
      let value = randomBytes(size)
      try await storage.set("size \(size % 7)", value)
      try await expect(value, for: "size \(size % 7)", "set to \(size) bytes")
    }
    for size in sizes.suffix(3) + [100, 0] {
      let value = [UInt8](repeating: 0, count: size)
      try await storage.set("one", value)
      try await expect(value, for: "one", "set to \(size) zeros")
    }
  }

  private mutating func randomOperationsFollowADictionary() async throws {
    let names =
      (0..<12).map { "key \($0)" } + storage.hostileKeys.shuffled(using: &random).prefix(8)
    var model = Model()
    for _ in 0..<storage.operations {
      let key = names.randomElement(using: &random)!
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<40:
        let value = randomValue()
        try await storage.set(key, value)
        model[key] = value
      case 40..<60:
        try await storage.remove(key)
        model[key] = nil
      case 60:
        try await storage.removeAll()
        model = Model()
      default: break
      }
      try await expect(model[key], for: key, "used just now")
      let other = names.randomElement(using: &random)!
      try await expect(model[other], for: other, "used at random")
    }
    for key in names { try await expect(model[key], for: key, "used at random, at the end") }
    if let keys = storage.keys { try compare(try await keys(), with: model) }
  }

  // MARK: Parts

  /// A dictionary whose keys are compared by their bytes.
  private struct Model {
    private(set) var values: [[UInt8]: [UInt8]] = [:]

    subscript(key: String) -> [UInt8]? {
      get { values[Array(key.utf8)] }
      set { values[Array(key.utf8)] = newValue }
    }
  }

  private func compare(_ found: [String], with model: Model) throws {
    var left = Set(model.values.keys)
    for key in found where left.remove(Array(key.utf8)) == nil {
      let isTwice = model[key] != nil
      throw LawFailure(
        message: "keys gives \(quoted(key)), which is \(isTwice ? "there once" : "not there").")
    }
    if let missing = left.first {
      throw LawFailure(message: "keys lacks \(quoted(String(decoding: missing, as: UTF8.self))).")
    }
  }

  /// Eight at a time: there are megabytes of them, also in unoptimised builds.
  private mutating func randomBytes(_ count: Int) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: (count + 7) & ~7) { buffer, initialized in
      let bytes = UnsafeMutableRawBufferPointer(buffer)
      for offset in stride(from: 0, to: count, by: 8) {
        unsafe bytes.storeBytes(of: random.next(), toByteOffset: offset, as: UInt64.self)
      }
      initialized = count
    }
  }

  private mutating func randomValue() -> [UInt8] {
    randomBytes(Int.random(in: 1...(random.chance(10) ? 3000 : 100), using: &random))
  }

  func expect(_ value: [UInt8]?, for key: String, _ history: String) async throws {
    let found = try await storage.get(key)
    if found == value { return }
    throw LawFailure(
      message: """
        The key \(quoted(key)), \(history), is read as \(described(found)) instead of \
        \(described(value)).
        """)
  }

  func described(_ value: [UInt8]?) -> String {
    guard let value else { return "nothing" }
    if value.isEmpty { return "no bytes" }
    let start = value.prefix(8).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
    return "\(value.count) bytes (\(start.joined())\(value.count > 8 ? "…" : ""))"
  }

  func quoted(_ key: String) -> String {
    let count = key.utf8.count
    let start = String(key.unicodeScalars.prefix(40))
    return start.debugDescription + (count > start.utf8.count ? "… (\(count) bytes)" : "")
  }
}
