// A cluster of franz-go's kfake for the tests: brokers that are not Apache Kafka. Arguments are the
// keys of APIs that they do not offer.
//
// Prints its addresses as one line of JSON and then obeys one order a line:
//
//	{"api": 16, "node": 1, "code": 14}     answer with an error code, on one broker (-1: all)
//	{"api": 42, "node": -1, "empty": true} answer with nothing in it
//	{"api": 16, "node": 2, "close": true}  close the connection instead of answering
//	{"clear": true}                        answer as kfake does
//
// Each order is acknowledged by a line with the number of requests struck so far.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

type order struct {
	API   int16 `json:"api"`
	Node  int32 `json:"node"`
	Code  int16 `json:"code"`
	Empty bool  `json:"empty"`
	Close bool  `json:"close"`
	Clear bool  `json:"clear"`
}

var (
	lock   sync.Mutex
	orders []order
	struck int
)

func main() {
	options := []kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(6, "payments", "audit")}
	if len(os.Args) > 1 {
		options = append(options, kfake.MaxVersions(without(os.Args[1:])))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	cluster.Control(func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return damage(request, cluster.CurrentNode())
	})
	print(cluster.ListenAddrs())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var given order
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		lock.Lock()
		if given.Clear {
			orders, struck = nil, 0
		} else {
			orders = append(orders, given)
		}
		print(struck)
		lock.Unlock()
	}
}

func without(keys []string) *kversion.Versions {
	offered := kversion.Stable()
	for _, text := range keys {
		key, err := strconv.ParseInt(text, 10, 16)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		offered.SetMaxKeyVersion(int16(key), -1)
	}
	return offered
}

func print(value any) {
	line, _ := json.Marshal(value)
	fmt.Println(string(line))
}

func damage(request kmsg.Request, node int32) (kmsg.Response, error, bool) {
	lock.Lock()
	defer lock.Unlock()
	for _, given := range orders {
		if given.API != request.Key() || (given.Node >= 0 && given.Node != node) {
			continue
		}
		struck++
		if given.Close {
			return nil, errors.New("closed by order"), true
		}
		response := request.ResponseKind()
		response.SetVersion(request.GetVersion())
		if !given.Empty {
			field := reflect.ValueOf(response).Elem().FieldByName("ErrorCode")
			field.SetInt(int64(given.Code))
		}
		return response, nil, true
	}
	return nil, nil, false
}
