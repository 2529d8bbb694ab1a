// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderTesting
import Testing

// The forms of PropertyKit's README, one test per form. A comment marks each behaviour that differs
// from PropertyKit.

private struct CustomValue: Codable, Sendable, Equatable {
  var key = "value"
  var date: Date?
  var data: Data?
}

private protocol ReaderKeys: PropertyDefaults {
  var lastPage: Int? { get nonmutating set }
}

private protocol WriterKeys: PropertyDefaults {
  var drafts: [String] { get nonmutating set }
}

extension Defaults: ReaderKeys, WriterKeys {
  fileprivate var autoStringProperty: String? {
    set { set(newValue) }
    get { return get() }
  }
  fileprivate var autoDateProperty: Date? {
    set { set(newValue) }
    get { return get() }
  }
  fileprivate var autoCustomNonOptionalProperty: CustomValue {
    set { set(newValue) }
    get { return get(or: CustomValue()) }
  }
  fileprivate var autoCustomOptionalProperty: CustomValue? {
    set { set(newValue) }
    get { return get() }
  }
  fileprivate var autoCustomSetterDefault: CustomValue? {
    set { set(newValue, or: CustomValue()) }
    get { return get() }
  }
  fileprivate var lastPage: Int? {
    set { set(newValue) }
    get { return get() }
  }
  fileprivate var drafts: [String] {
    set { set(newValue) }
    get { return get(or: []) }
  }
}

private class WatchableObject: PropertyWatchable {
  @Watched var testingProperty: String?
  @Watched var number = 1
  var doubled: String { "\(number * 2)" }
}

private final class Descendant: WatchableObject {
  @Watched var own = 0
}

@Suite(.timeLimit(.minutes(60)))
struct PropertyKitFormTests {
  @Test func `Properties of basic types are kept by their names`() throws {
    let ground = try StoreFixture()
    let date = Date(timeIntervalSince1970: 1)
    ground.defaults.autoStringProperty = "text"
    ground.defaults.autoDateProperty = date
    #expect(ground.defaults.autoStringProperty == "text")
    #expect(ground.defaults.autoDateProperty == date)
    #expect(try ground.defaults.keys() == ["autoDateProperty", "autoStringProperty"])
    ground.defaults.autoDateProperty = nil
    #expect(ground.defaults.autoDateProperty == nil)
  }

  @Test func `Handles of one suite agree, and two suites are two`() throws {
    let ground = try StoreFixture()
    let same = try Defaults(at: ground.path)
    let local = try StoreFixture()
    ground.defaults.autoStringProperty = "shared"
    #expect(same.autoStringProperty == "shared")
    #expect(local.defaults.autoStringProperty == nil)
  }

  @Test func `Codable types have defaults on reading, on setting, or none`() throws {
    let ground = try StoreFixture()
    #expect(ground.defaults.autoCustomNonOptionalProperty == CustomValue())
    #expect(try ground.defaults.has("autoCustomNonOptionalProperty"))
    #expect(ground.defaults.autoCustomOptionalProperty == nil)
    #expect(try !ground.defaults.has("autoCustomOptionalProperty"))
    ground.defaults.autoCustomSetterDefault = nil
    #expect(ground.defaults.autoCustomSetterDefault == CustomValue())
    ground.defaults.autoCustomNonOptionalProperty.key = "in place"
    #expect(ground.defaults.autoCustomNonOptionalProperty.key == "in place")
  }

  @Test func `Protocols give each part of a program its own keys`() throws {
    let ground = try StoreFixture()
    let reader: any ReaderKeys = ground.defaults
    let writer: any WriterKeys = ground.defaults
    reader.lastPage = 12
    writer.drafts.append("a")
    #expect(reader.lastPage == 12)
    #expect(writer.drafts == ["a"])
    #expect(try ground.defaults.keys() == ["drafts", "lastPage"])
  }

  @Test func `Values of a property or function are its own`() throws {
    let ground = try StoreFixture()
    var p1: Int {
      ground.defaults.set(2)
      return ground.defaults.get(or: 0)
    }
    var p2: Int { ground.defaults.get(or: 0) }
    func f(_ value: Int) -> Int? {
      ground.defaults.set(value)
      return ground.defaults.get()
    }
    #expect(p1 == 2)
    #expect(p2 == 0)
    #expect(f(3) == 3)
    #expect(try ground.defaults.keys() == ["f(_:)", "p1", "p2"])
  }

  @Test func `Watching needs an object, a key path and a closure`() {
    let object = WatchableObject()
    var heard = 0
    object.watch(\.testingProperty) { heard += 1 }
    object.testingProperty = "some value"
    object.testingProperty = nil
    #expect(heard == 2)
  }

  // The new value is always there; key-value observation needs `.new` for it.
  private static let options: [(WatchOptions, [String])] = [
    ([], ["1 2 -", "2 3 -"]), (.new, ["1 2 -", "2 3 -"]), (.old, ["1 2 1", "2 3 2"]),
    (.initial, ["1 1 -", "1 2 -", "2 3 -"]), (.prior, ["prior -", "1 2 -", "prior -", "2 3 -"]),
    ([.initial, .old, .prior], ["1 1 -", "prior 1", "1 2 1", "prior 2", "2 3 2"]),
  ]

  @Test(arguments: options.indices)
  func `Each option gives its documented values`(index: Int) {
    let (options, expected) = Self.options[index]
    let object = WatchableObject()
    var heard: [String] = []
    var before = 1
    object.watch(\.number, options: options) { object, change in
      let old = change.oldValue.map(String.init) ?? "-"
      if change.isPrior {
        #expect(change.newValue == nil)
        heard.append("prior \(old)")
      } else {
        heard.append("\(before) \(change.newValue ?? -1) \(old)")
        before = object.number
      }
    }
    object.number = 2
    object.number = 3
    #expect(heard == expected)
  }

  @Test func `Ids are made of the place or given, and listed by the property`() {
    let object = WatchableObject()
    object.watch(\.testingProperty) {}
    object.watch(\.testingProperty) {}
    let info = object.watch(\.testingProperty, id: "myid", options: [.old]) {}
    let all = object.watching(by: \.testingProperty)
    #expect(all.count == 3)
    #expect(Set(all.map(\.id)).count == 3)
    #expect(all.map(\.isAutomatic) == [true, true, false])
    #expect(info.id == "myid")
    #expect(object.watching(by: \.testingProperty, id: "myid").count == 1)
    #expect(object.watching(by: \.number).isEmpty)
  }

  @Test func `Watches end by id, by property, by file and all, of this object only`() {
    let object = WatchableObject()
    let other = WatchableObject()
    other.watch(\.number) {}
    func watch() {
      object.watch(\.testingProperty, id: "myid") {}
      object.watch(\.testingProperty) {}
      object.watch(\.number) {}
    }
    watch()
    #expect(object.unwatch(\.testingProperty, forIds: ["myid"]) == ["myid": true])
    #expect(object.watching().count == 2)
    #expect(object.unwatch(\.testingProperty).count == 1)
    #expect(object.watching().count == 1)
    watch()
    #expect(object.unwatchAllFilePrivate())
    #expect(object.watching().map(\.id) == ["myid"])
    #expect(object.unwatch(forIds: ["myid"]) == ["myid": true])
    watch()
    object.unwatchAll()
    #expect(object.watching().isEmpty)
    #expect(other.watching().count == 1)
  }

  @Test func `Inherited and computed properties are properties`() {
    let object = Descendant()
    var heard: [String] = []
    object.watch(\.number, id: "inherited") { heard.append("inherited") }
    object.watch(\.doubled, id: "computed") { heard.append("computed") }
    object.watch(\.own, id: "own") { heard.append("own") }
    (object as WatchableObject).number = 4
    object.own = 1
    #expect(heard == ["inherited", "computed", "own"])
    #expect((object as WatchableObject).watching(by: \.number).map(\.id) == ["inherited"])
    #expect((object as WatchableObject).unwatch(\.number) == ["inherited": true])
  }
}
